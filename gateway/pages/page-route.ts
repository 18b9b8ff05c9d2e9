/** The routes of pages, which http-proxy-3 forwards to backends. */

/**
 * The largest inbound mail. It is large enough for attachments, since the mail server does not retry a mail
 * that was rejected. The backend needs only the beginning of a mail, so the gateway forwards that part and
 * drops the rest.
 */
const MAIL_BYTES_MAX = 40 * 1024 * 1024

export interface PageRoute {
  readonly prefix: string
  readonly methods: readonly string[]
  /** The largest accepted body; `BODY_BYTES_MAX` if undefined. */
  readonly bodyBytesMax?: number
  /** Further request headers that the backend receives. */
  readonly headers?: readonly string[]
}

/** The largest CSV file. Larger files must be imported with the command line. */
const IMPORT_BYTES_MAX = 1024 * 1024

const PAGE_ROUTES: readonly PageRoute[] = [
  {
    prefix: '/settings/import',
    methods: ['GET', 'HEAD', 'POST'],
    headers: ['x-dialog'],
    bodyBytesMax: IMPORT_BYTES_MAX,
  },
  { prefix: '/settings', methods: ['GET', 'HEAD', 'POST', 'PUT'], headers: ['x-dialog'] },
  { prefix: '/docs', methods: ['GET', 'HEAD'], headers: ['accept-encoding'] },
]

/** Every gateway serves these paths: links in mails lead to them, or the mail server posts to them. */
const MAIL_ROUTES: readonly PageRoute[] = [
  { prefix: '/mail/unsubscribe', methods: ['GET', 'HEAD', 'POST'] },
  {
    prefix: '/mail/inbound',
    methods: ['POST'],
    headers: ['authorization'],
    bodyBytesMax: MAIL_BYTES_MAX,
  },
]

const ALL_ROUTES: readonly PageRoute[] = [...PAGE_ROUTES, ...MAIL_ROUTES]

/**
 * Returns undefined if no page has this path. If `servesPages` is false, only the paths below
 * `/mail` are served.
 */
export function pageRouteOf(path: string, servesPages: boolean): PageRoute | undefined {
  const routes = servesPages ? ALL_ROUTES : MAIL_ROUTES
  return routes.find(({ prefix }) => path === prefix || path.startsWith(`${prefix}/`))
}
