/**
 * Validates an endpoint's URL. This check finds mistakes early and explains them. The check of every
 * address at connect time (connector.ts) keeps deliveries out of our own network, since a name can resolve
 * to any address later.
 */
import { isIP } from 'node:net'

/** `allow` is for development: endpoints may then be on this machine and its network. */
export type PrivateTargets = 'refuse' | 'allow'

const LENGTH_MAX = 2048

/** Lower ports belong to other services, which are not webhook receivers. */
const PORT_MIN = 1024

const INTERNAL_NAME = /(?:^|\.)(?:localhost|local|internal)$/

/** Returns the URL in canonical form, or the error in it. */
export function parseTargetUrl(
  text: string,
  privateTargets: PrivateTargets,
): { readonly url: string } | { readonly fault: string } {
  const fault = faultOf(text, privateTargets)
  return fault === undefined ? { url: new URL(text).href } : { fault }
}

function faultOf(text: string, privateTargets: PrivateTargets): string | undefined {
  if (text.length > LENGTH_MAX) return `must have at most ${LENGTH_MAX} characters`
  // The parser would remove or repair these characters without notice.
  if (/[\s\p{Cc}\\]/u.test(text)) return 'must not contain spaces, control characters or \\'
  const url = URL.parse(text)
  if (url === null || !/^https?:\/\/[^/]/i.test(text)) {
    return 'must be a whole address such as https://example.com/webhooks'
  }
  if (url.username !== '' || url.password !== '' || /^[^/]*\/\/[^/?#]*@/.test(text)) {
    return 'must not contain a user name or password'
  }
  if (text.includes('#')) return 'must not contain a fragment (#)'
  if (privateTargets === 'allow') {
    const isOwn = isLoopbackName(url.hostname)
    return url.protocol === 'https:' || isOwn ? undefined : 'must begin with https://'
  }
  if (url.protocol !== 'https:') return 'must begin with https://'
  return hostFault(url) ?? portFault(url)
}

export function isLoopbackName(hostname: string): boolean {
  return /^(?:(?:.*\.)?localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
}

function hostFault({ hostname }: URL): string | undefined {
  if (hostname.startsWith('[') || isIP(hostname) !== 0) {
    return 'must name a host, not an IP address'
  }
  if (hostname.endsWith('.')) return 'must not end its host name with a dot'
  const isPublicName = hostname.includes('.') && !INTERNAL_NAME.test(hostname)
  return isPublicName ? undefined : 'must name a host of the public internet'
}

function portFault({ port }: URL): string | undefined {
  if (port === '' || Number(port) >= PORT_MIN) return undefined
  return `must use port 443, or one from ${PORT_MIN} on`
}
