/** Whether a request that changes something comes from our own pages, as far as browsers say. */
import { Problem } from '../../../shared/contract/problem.ts'
import { isLoopback } from './cookies.ts'

export interface OriginHeaders {
  readonly origin?: string | undefined
  readonly 'sec-fetch-site'?: string | undefined
}

/**
 * Throws `Problem` `cross_site_request`. Scripts send neither header; for them the token decides.
 * Browsers say `Origin: null` for forms of pages under `no-referrer`, ours too: that passes only
 * where `Sec-Fetch-Site`, which no page can forge, names it our own.
 */
export function checkSameOrigin(headers: OriginHeaders, baseUrl: string): void {
  const { origin, 'sec-fetch-site': site } = headers
  const isForeignSite = site !== undefined && site !== 'same-origin' && site !== 'none'
  const isOurOrigin =
    origin === undefined || (origin === 'null' ? site === 'same-origin' : isOrigin(origin, baseUrl))
  if (!isForeignSite && isOurOrigin) return
  throw new Problem('cross_site_request', 'The request came from another site.')
}

/** On one's own machine under any of its names and ports: whoever listens there is oneself. */
function isOrigin(origin: string, baseUrl: string): boolean {
  if (origin === new URL(baseUrl).origin) return true
  return URL.canParse(origin) && isLoopback(baseUrl) && isLoopback(origin)
}
