/** Checks, by headers that browsers send, that a change was requested by our own pages. */
import { Problem } from '../../../shared/contract/problem.ts'
import { isLoopback } from './cookies.ts'

export interface OriginHeaders {
  readonly origin?: string | undefined
  readonly 'sec-fetch-site'?: string | undefined
}

/**
 * Throws `Problem` `cross_site_request`. Clients other than browsers send neither header; the CSRF token protects
 * their requests. Browsers send `Origin: null` for forms of pages with `no-referrer`, such as ours. This is
 * accepted only if `Sec-Fetch-Site`, which no page can forge, is `same-origin`.
 */
export function checkSameOrigin(headers: OriginHeaders, baseUrl: string): void {
  const { origin, 'sec-fetch-site': site } = headers
  const isForeignSite = site !== undefined && site !== 'same-origin' && site !== 'none'
  const isOurOrigin =
    origin === undefined || (origin === 'null' ? site === 'same-origin' : isOrigin(origin, baseUrl))
  if (!isForeignSite && isOurOrigin) return
  throw new Problem('cross_site_request', 'The request came from another site.')
}

/**
 * If Settings itself is at a loopback address, any loopback name and port is accepted, since only this
 * machine can listen there.
 */
function isOrigin(origin: string, baseUrl: string): boolean {
  if (origin === new URL(baseUrl).origin) return true
  return URL.canParse(origin) && isLoopback(baseUrl) && isLoopback(origin)
}
