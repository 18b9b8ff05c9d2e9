/**
 * Adds the security headers of all pages, including error pages of Settings, according to OWASP's recommendations. Also
 * checks, by headers that browsers send, that a change was requested by one of our own pages.
 */
import type { Server } from '@hapi/hapi'
import { Problem } from '../../../shared/contract/problem.ts'
import { isLoopback } from './cookies.ts'

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

/** The headers of all pages. The pages below `/docs` and `/mail` set their own content security policies. */
const COMMON_HEADERS: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
}

/** The headers of the pages of Settings. */
const HEADERS: Readonly<Record<string, string>> = {
  ...COMMON_HEADERS,
  'content-security-policy': CONTENT_SECURITY_POLICY,
  vary: 'Accept, Cookie',
}

export const MESSAGE_HTML_PATH = '/settings/messages/{id}/html'
export const WORDING_PREVIEW_PATH = '/settings/wording/{id}/preview'

/** For the HTML of a mail in an iframe of our pages: inline styles are allowed, scripts and requests are not. */
const MAIL_HTML_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'self'",
  'x-frame-options': 'SAMEORIGIN',
}

export const LOGO_PATH = '/settings/sender/logo'

/** For an uploaded picture. A browser must treat it only as a picture, even if its URL is opened directly. */
const LOGO_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': "default-src 'none'; sandbox; frame-ancestors 'none'",
  'content-disposition': 'inline; filename="logo"',
}

/**
 * The routes of pages that show the HTML of a mail in an iframe. `LOGO_PATH` is one of them: the response to an upload
 * of an invalid logo is the page of the sender.
 */
const FRAMING_PAGES = /^\/settings\/(?:(?:messages|approvals|wording)\/\{id\}|sender(?:\/logo)?$)/

function headersOf(routePath: string, isPicture: boolean): Readonly<Record<string, string>> {
  if (/^\/(?:docs|mail)/.test(routePath)) return COMMON_HEADERS
  if (routePath === MESSAGE_HTML_PATH || routePath === WORDING_PREVIEW_PATH)
    return { ...HEADERS, ...MAIL_HTML_HEADERS }
  if (routePath === LOGO_PATH && isPicture) return { ...HEADERS, ...LOGO_HEADERS }
  if (!FRAMING_PAGES.test(routePath)) return HEADERS
  return { ...HEADERS, 'content-security-policy': `${CONTENT_SECURITY_POLICY}; frame-src 'self'` }
}

/**
 * Call this after the handler of problems is registered, so that error responses get the headers too. The 404 for a
 * client other than a gateway has no such headers, because it is sent before the request is matched to a route, on
 * which the headers depend.
 */
export function addSecurityHeaders(server: Server, baseUrl: string): void {
  const isHttps = baseUrl.startsWith('https:')
  server.ext('onPreResponse', ({ route, response }, h) => {
    const isPage = /^\/(?:settings|docs|mail)(?:\/|$)/.test(route.path)
    if (!isPage || response instanceof Error) return h.continue
    const isPicture = String(response.headers['content-type']).startsWith('image/')
    const headers = headersOf(route.path, isPicture)
    for (const [name, value] of Object.entries(headers)) response.header(name, value)
    if (isHttps) response.header('strict-transport-security', 'max-age=31536000')
    return h.continue
  })
}

interface OriginHeaders {
  readonly origin?: string | undefined
  readonly 'sec-fetch-site'?: string | undefined
}

/**
 * Throws `Problem` `cross_site_request` if a page of another origin sent the request. A request with neither `Origin`
 * nor `Sec-Fetch-Site` is accepted, because clients other than browsers send neither; in a session, it still needs a
 * CSRF token. Browsers send `Origin: null` for forms of pages with `no-referrer`, such as ours. `null` is accepted only
 * if `Sec-Fetch-Site`, which no page can forge, is `same-origin`.
 */
export function checkSameOrigin(headers: OriginHeaders, baseUrl: string): void {
  const { origin, 'sec-fetch-site': site } = headers
  const isForeignSite = site !== undefined && site !== 'same-origin' && site !== 'none'
  const isOurOrigin =
    origin === undefined ||
    (origin === 'null' ? site === 'same-origin' : isOriginOf(baseUrl, origin))
  if (!isForeignSite && isOurOrigin) return
  throw new Problem('cross_site_request', 'The request came from another site.')
}

/**
 * If Settings itself is at a loopback address, any loopback name and port is accepted, e.g. `localhost` instead of
 * `127.0.0.1`, since only programs on this machine can listen there.
 */
function isOriginOf(baseUrl: string, origin: string): boolean {
  if (origin === new URL(baseUrl).origin) return true
  return URL.canParse(origin) && isLoopback(baseUrl) && isLoopback(origin)
}
