/** The routes of pages and of incoming mail. */
import type { BodyLimits } from '../call/call.ts'

const MIB = 1024 * 1024

/**
 * `bytesMax` allows mails with large attachments, since the mail server does not send a rejected mail again. The
 * backend needs only the beginning of a mail.
 */
const MAIL_LIMITS: BodyLimits = { bytesMax: 40 * MIB, keptBytesMax: 256 * 1024 }

export interface PageRoute {
  readonly prefix: string
  readonly methods: readonly string[]
  /** `CALL_BODY_LIMITS` if undefined. */
  readonly bodyLimits?: BodyLimits
  /** Request headers that the backend receives in addition to those of every route. */
  readonly headers?: readonly string[]
}

/** The limits of a form with a CSV file. Larger files must be imported from the command line. */
const IMPORT_LIMITS: BodyLimits = { bytesMax: MIB, keptBytesMax: MIB }

/**
 * A script that will show the response in a dialog sends `x-dialog`. The backend sends the documentation compressed if
 * `accept-encoding` allows it.
 */
const PAGE_ROUTES: readonly PageRoute[] = [
  {
    prefix: '/settings/import',
    methods: ['GET', 'HEAD', 'POST'],
    headers: ['x-dialog'],
    bodyLimits: IMPORT_LIMITS,
  },
  { prefix: '/settings', methods: ['GET', 'HEAD', 'POST', 'PUT'], headers: ['x-dialog'] },
  { prefix: '/docs', methods: ['GET', 'HEAD'], headers: ['accept-encoding'] },
]

/** Every gateway serves these paths: links in reminders lead to them, or the mail server posts to them. */
const MAIL_ROUTES: readonly PageRoute[] = [
  { prefix: '/mail/unsubscribe', methods: ['GET', 'HEAD', 'POST'] },
  {
    prefix: '/mail/inbound',
    methods: ['POST'],
    headers: ['authorization'],
    bodyLimits: MAIL_LIMITS,
  },
]

const ALL_ROUTES: readonly PageRoute[] = [...PAGE_ROUTES, ...MAIL_ROUTES]

/**
 * Returns the first route whose prefix matches, so a longer prefix must precede a shorter one. If `servesPages` is
 * false, only the paths below `/mail` are served.
 */
export function pageRouteOf(path: string, servesPages: boolean): PageRoute | undefined {
  const routes = servesPages ? ALL_ROUTES : MAIL_ROUTES
  return routes.find(({ prefix }) => path === prefix || path.startsWith(`${prefix}/`))
}
