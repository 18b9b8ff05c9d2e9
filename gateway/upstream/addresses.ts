/**
 * Where the backends are. A name stands for all of its addresses, each a backend of its own, and is
 * asked again in the background: so backends come and go without a restart of the gateways. While the
 * names cannot be asked what was known holds.
 */
import { promises as dns, type LookupAddress } from 'node:dns'
import { isIP } from 'node:net'
import { Problem } from '../../shared/contract/problem.ts'
import type { Logger } from '../../shared/process/log.ts'

/** Names are asked this often; the answers themselves are kept by the system's resolver. */
const RESOLVE_INTERVAL_MS = 5_000
/** Soonest after the last time, where an address refused a connection. */
const RESOLVE_SOON_MS = 1_000

export interface BackendAddress {
  /** Of this address alone, e.g. `http://10.0.0.7:8081`, `unix:/run/backend.sock`. */
  readonly url: string
  /** As it was configured: what `Host` and certificates go by. */
  readonly origin: string
  /** The address that the name of `origin` stands for; undefined where it is one itself. */
  readonly ip: string | undefined
  readonly socketPath: string | undefined
}

/** All addresses of a name, IPv4 and IPv6. */
export type Resolve = (name: string) => Promise<readonly LookupAddress[]>

export interface BackendAddresses {
  current(): readonly BackendAddress[]
  onChange(listener: () => void): void
  /** An address does not answer: the names may know better. */
  suspect(): void
  close(): void
}

export interface BackendAddressesOptions {
  /** As `parseBackendUrl` gives them. */
  readonly urls: readonly string[]
  readonly resolve?: Resolve
  readonly log: Logger
}

/** Normalised; throws an `Error` whose message completes "BACKEND_URLS …". */
export function parseBackendUrl(text: string): string {
  const [, path] = /^(?:http\+unix:\/\/|unix:(?:\/\/)?)(\/[^?#]+)$/.exec(text) ?? []
  if (path !== undefined) return `unix:${path}`
  const url = URL.parse(text)
  const isOrigin = url?.href === `${url?.origin}/`
  if (url === null || !isOrigin || !/^https?:$/.test(url.protocol)) {
    throw new Error(`must be http://host:port, https://host:port or unix:/path, not "${text}"`)
  }
  return url.origin
}

export function watchBackendAddresses(options: BackendAddressesOptions): BackendAddresses {
  const { urls, resolve = lookUpAll, log } = options
  const listeners: (() => void)[] = []
  const failing = new Set<string>()
  const known = new Map<string, readonly BackendAddress[]>()
  const names = urls.filter((url) => !isFixed(url))
  for (const url of urls) known.set(url, isFixed(url) ? [fixedAddress(url)] : [])
  let askedAt = Number.NEGATIVE_INFINITY

  async function ask(url: string): Promise<void> {
    const name = new URL(url).hostname
    try {
      const addresses = addressesOf(url, await resolve(name))
      if (failing.delete(url)) log.info({ backend: url }, 'name of backends known again')
      const before = known.get(url)?.map((address) => address.url)
      const after = addresses.map((address) => address.url)
      if (before?.join() === after.join()) return
      known.set(url, addresses)
      log.info({ backend: url, before, after }, 'addresses of backends changed')
      for (const listener of listeners) listener()
    } catch (error) {
      if (failing.has(url)) return
      failing.add(url)
      log.warn({ backend: url, err: error }, 'name of backends not known: what was known holds')
    }
  }

  function askAll(): void {
    askedAt = performance.now()
    for (const url of names) void ask(url)
  }

  const timer = setInterval(askAll, RESOLVE_INTERVAL_MS)
  askAll()
  return {
    current: () => [...new Map([...known.values()].flat().map((one) => [one.url, one])).values()],
    onChange: (listener) => void listeners.push(listener),
    suspect() {
      if (performance.now() - askedAt > RESOLVE_SOON_MS) askAll()
    },
    close: () => clearInterval(timer),
  }
}

/** While there is none: nothing was sent, and trying again is right. */
export function noBackendKnown(): Problem {
  return new Problem('service_unavailable', 'Nothing was done. Try again in a second.', {
    headers: { 'retry-after': '1' },
    cause: new Error('no address of a backend is known'),
  })
}

const lookUpAll: Resolve = (name) => dns.lookup(name, { all: true, order: 'verbatim' })

function isFixed(url: string): boolean {
  return url.startsWith('unix:') || isIP(bare(new URL(url).hostname)) !== 0
}

function fixedAddress(url: string): BackendAddress {
  if (!url.startsWith('unix:')) return { url, origin: url, ip: undefined, socketPath: undefined }
  const socketPath = url.slice('unix:'.length)
  return { url, origin: 'http://localhost', ip: undefined, socketPath }
}

/** In a stable order. Where a name has both kinds, the IPv4 ones: else each backend would count twice. */
function addressesOf(origin: string, found: readonly LookupAddress[]): BackendAddress[] {
  const four = found.filter(({ family }) => family === 4)
  const addresses = (four.length > 0 ? four : found).map(({ address }) => address).sort()
  if (addresses.length === 0) throw new Error('the name has no address')
  return [...new Set(addresses)].map((ip) => {
    const url = new URL(origin)
    url.hostname = isIP(ip) === 6 ? `[${ip}]` : ip
    return { url: url.origin, origin, ip, socketPath: undefined }
  })
}

/** IPv6 without the brackets that it has in a URL. */
function bare(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '')
}
