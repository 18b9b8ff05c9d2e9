/**
 * What an endpoint's address may look like. This finds mistakes early and says what is wrong; what
 * keeps deliveries out of our own network is the check of every address at connect time
 * (connector.ts), since a name can come to mean anything.
 */
import { isIP } from 'node:net'

/** `allow` is for development: this machine and its network are then within reach. */
export type PrivateTargets = 'refuse' | 'allow'

const LENGTH_MAX = 2048

/** Below are other services' ports: nobody's receiver, somebody's database. */
const PORT_MIN = 1024

const INTERNAL_NAME = /(?:^|\.)(?:localhost|local|internal)$/

/** The address in its canonical form, or what is wrong with it. */
export function parseTargetUrl(
  text: string,
  privateTargets: PrivateTargets,
): { readonly url: string } | { readonly fault: string } {
  const fault = faultOf(text, privateTargets)
  return fault === undefined ? { url: new URL(text).href } : { fault }
}

function faultOf(text: string, privateTargets: PrivateTargets): string | undefined {
  if (text.length > LENGTH_MAX) return `must have at most ${LENGTH_MAX} characters`
  // The parser would drop or mend these, and people would not see what they got.
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
