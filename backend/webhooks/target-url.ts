/**
 * Validates the URL of a webhook endpoint, to find mistakes early and explain them. This does not protect our own
 * network, because a name can resolve to any address later. For this protection, `connector.ts` checks the address of
 * every connection.
 */
import { isIP } from 'node:net'

/**
 * With `refuse`, an endpoint must have HTTPS and a public host name. With `allow`, which is for development, every host
 * and port is accepted with HTTPS, and a loopback host also without HTTPS.
 */
export type PrivateTargetPolicy = 'refuse' | 'allow'

const LENGTH_MAX = 2048
const TOO_LONG = `must have at most ${LENGTH_MAX} characters`

/** Lower ports, except 443, belong to services that are not webhook receivers. */
const PORT_MIN = 1024

const INTERNAL_NAME = /(?:^|\.)(?:localhost|local|internal)$/

/** Returns the URL in canonical form, or what is wrong with it: `must …`, to which callers prepend the field's name. */
export function parseTargetUrl(
  text: string,
  privateTargetPolicy: PrivateTargetPolicy,
): { readonly url: string } | { readonly error: string } {
  const error = errorIn(text, privateTargetPolicy)
  return error === undefined ? { url: new URL(text).href } : { error }
}

function errorIn(text: string, privateTargetPolicy: PrivateTargetPolicy): string | undefined {
  if (text.length > LENGTH_MAX) return TOO_LONG
  // The parser would remove or repair these characters without notice.
  if (/[\s\p{Cc}\\]/u.test(text)) return 'must not contain spaces, control characters or \\'
  const url = URL.parse(text)
  // The parser also accepts other numbers of slashes, as in `https:example.com`.
  if (url === null || !/^https?:\/\/[^/]/i.test(text)) {
    return 'must be a complete URL such as https://example.com/webhooks'
  }
  // In canonical form, in which the URL is stored, it can be longer, e.g. because each `é` becomes `%C3%A9`.
  if (url.href.length > LENGTH_MAX) return TOO_LONG
  // The parser removes an empty user name, as in `https://@example.com`.
  if (url.username !== '' || url.password !== '' || /^[^/]*\/\/[^/?#]*@/.test(text)) {
    return 'must not contain a user name or password'
  }
  // `url.hash` is also empty if the URL has an empty fragment, as in `https://example.com/#`.
  if (text.includes('#')) return 'must not contain a fragment (#)'
  if (privateTargetPolicy === 'allow') {
    const isLoopback = isLoopbackHost(url.hostname)
    return url.protocol === 'https:' || isLoopback ? undefined : 'must begin with https://'
  }
  if (url.protocol !== 'https:') return 'must begin with https://'
  return errorInHost(url) ?? errorInPort(url)
}

export function isLoopbackHost(hostname: string): boolean {
  return /^(?:(?:.*\.)?localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
}

function errorInHost({ hostname }: URL): string | undefined {
  if (hostname.startsWith('[') || isIP(hostname) !== 0) {
    return 'must name a host, not an IP address'
  }
  if (hostname.endsWith('.')) return 'must not have a dot at the end of its host name'
  const isPublicName = hostname.includes('.') && !INTERNAL_NAME.test(hostname)
  return isPublicName ? undefined : 'must name a host on the public internet'
}

function errorInPort({ port }: URL): string | undefined {
  if (port === '' || Number(port) >= PORT_MIN) return undefined
  return `must use port 443, or port ${PORT_MIN} or higher`
}
