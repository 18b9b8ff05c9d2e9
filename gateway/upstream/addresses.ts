/**
 * The addresses of the backends. Each address of a host name is one backend. Host names are resolved again every few
 * seconds, so backends can be added and removed without a restart of the gateway. While a name cannot be resolved, its
 * last addresses stay in use.
 */
import { promises as dns, type LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { connect, isIP } from 'node:net'
import { type Problem, temporarilyUnavailable } from '../../shared/contract/problem.ts'
import type { Logger } from '../../shared/process/log.ts'
import {
  hasPortZero,
  MUST_NOT_HAVE_PORT_ZERO,
  withoutLogin,
} from '../../shared/process/settings.ts'

/** How often host names are resolved; the system's resolver may cache the results. */
const RESOLVE_INTERVAL_MS = 5_000
/** How long an address may take to accept the connection that tests it. */
const CONNECT_TIMEOUT_MS = 1_000
/** See `BackendAddresses.refresh`. */
const RESOLVE_AGAIN_AFTER_MS = 1_000

export interface BackendAddress {
  /** The URL with the address in place of the name, e.g. `http://10.0.0.7:8081`, or `unix:/run/backend.sock`. */
  readonly url: string
  /** The configured origin, for `Host` and to verify the certificate; `http://localhost` for a Unix socket. */
  readonly origin: string
  /** The address of the name in `origin`; undefined if `origin` has no name that must be resolved. */
  readonly ip: string | undefined
  readonly socketPath: string | undefined
}

/** Returns all addresses of a name, IPv4 and IPv6. */
export type Resolve = (name: string) => Promise<readonly LookupAddress[]>

export interface BackendAddresses {
  current(): readonly BackendAddress[]
  onChange(listener: () => void): void
  /**
   * Resolves the names again, unless the last resolution began less than `RESOLVE_AGAIN_AFTER_MS` ago. Called when no
   * connection to an address could be opened.
   */
  refresh(): void
  close(): void
}

export interface BackendAddressesOptions {
  /** URLs as returned by `parseBackendUrl`. */
  readonly urls: readonly string[]
  readonly resolve?: Resolve
  readonly log: Logger
}

/** Returns the normalized URL. Throws an `Error` whose message continues a sentence that begins with "BACKEND_URLS". */
export function parseBackendUrl(text: string): string {
  // A socket can be written as unix:/path, unix:///path or http+unix:///path.
  const [, path] = /^(?:http\+unix:\/\/|unix:(?:\/\/)?)(\/[^?#]+)$/.exec(text) ?? []
  if (path !== undefined) return `unix:${path}`
  const url = URL.parse(text)
  const isOrigin = url?.href === `${url?.origin}/`
  if (url === null || !isOrigin || !/^https?:$/.test(url.protocol)) {
    throw new Error(
      `must be http://host:port, https://host:port or unix:/path, not "${withoutLogin(text)}"`,
    )
  }
  if (hasPortZero(url)) throw new Error(MUST_NOT_HAVE_PORT_ZERO)
  return url.origin
}

export function watchBackendAddresses(options: BackendAddressesOptions): BackendAddresses {
  const { urls, resolve = lookUpAll, log } = options
  const listeners: (() => void)[] = []
  const failing = new Set<string>()
  const resolving = new Set<string>()
  const addressesByUrl = new Map<string, readonly BackendAddress[]>()
  const namedUrls = urls.filter((url) => !hasFixedAddress(url))
  for (const url of urls) addressesByUrl.set(url, hasFixedAddress(url) ? [fixedAddress(url)] : [])
  let resolutionBeganAt = Number.NEGATIVE_INFINITY

  async function resolveOne(url: string): Promise<void> {
    // Without this, slow resolutions would pile up, and the result of an earlier one could replace that of a later one.
    if (resolving.has(url)) return
    resolving.add(url)
    const name = new URL(url).hostname
    try {
      const addresses = await addressesOf(url, await resolve(name))
      if (failing.delete(url))
        log.info({ backend: url }, 'the host name of backends can be resolved again')
      const before = addressesByUrl.get(url)?.map((address) => address.url)
      const after = addresses.map((address) => address.url)
      if (before?.join() === after.join()) return
      addressesByUrl.set(url, addresses)
      log.info({ backend: url, before, after }, 'addresses of backends changed')
      for (const listener of listeners) listener()
    } catch (error) {
      if (failing.has(url)) return
      failing.add(url)
      log.warn(
        { backend: url, err: error },
        'the host name of backends cannot be resolved: its last addresses stay in use',
      )
    } finally {
      resolving.delete(url)
    }
  }

  function resolveAll(): void {
    resolutionBeganAt = performance.now()
    for (const url of namedUrls) void resolveOne(url)
  }

  const timer = setInterval(resolveAll, RESOLVE_INTERVAL_MS)
  resolveAll()
  return {
    // Two names may have the same address, which is one backend.
    current: () => [
      ...new Map(
        [...addressesByUrl.values()].flat().map((address) => [address.url, address]),
      ).values(),
    ],
    onChange: (listener) => void listeners.push(listener),
    refresh() {
      if (performance.now() - resolutionBeganAt > RESOLVE_AGAIN_AFTER_MS) resolveAll()
    },
    close: () => clearInterval(timer),
  }
}

/** The problem of a call while no address of a backend is known. */
export function noBackendKnown(): Problem {
  return temporarilyUnavailable('Nothing was done. Try again in a second.', {
    cause: new Error('no address of a backend is known'),
  })
}

const lookUpAll: Resolve = (name) => dns.lookup(name, { all: true, order: 'verbatim' })

/** Whether the URL has an IP address or a socket instead of a name. */
function hasFixedAddress(url: string): boolean {
  return url.startsWith('unix:') || isIP(withoutBrackets(new URL(url).hostname)) !== 0
}

function fixedAddress(url: string): BackendAddress {
  if (!url.startsWith('unix:')) return { url, origin: url, ip: undefined, socketPath: undefined }
  const socketPath = url.slice('unix:'.length)
  return { url, origin: 'http://localhost', ip: undefined, socketPath }
}

/**
 * Returns the addresses in a stable order. If a name has IPv4 and IPv6 addresses, returns only those of one family:
 * IPv6 if no IPv4 address accepts connections but an IPv6 address does, otherwise IPv4. Most backends have an address
 * of each family, and would otherwise be counted twice.
 */
async function addressesOf(
  origin: string,
  found: readonly LookupAddress[],
): Promise<BackendAddress[]> {
  if (found.length === 0) throw new Error('the name has no address')
  const ofFamily = (family: number) =>
    [...new Set(found.filter((one) => one.family === family).map(({ address }) => address))]
      .sort()
      .map((ip) => addressOf(origin, ip))
  const [ipv4, ipv6] = [ofFamily(4), ofFamily(6)]
  if (ipv4.length === 0 || ipv6.length === 0) return [...ipv4, ...ipv6]
  return !(await isAnyOpen(ipv4)) && (await isAnyOpen(ipv6)) ? ipv6 : ipv4
}

function addressOf(origin: string, ip: string): BackendAddress {
  const url = new URL(origin)
  url.hostname = isIP(ip) === 6 ? `[${ip}]` : ip
  return { url: url.origin, origin, ip, socketPath: undefined }
}

function isAnyOpen(addresses: readonly BackendAddress[]): Promise<boolean> {
  const attempts = addresses.map(async ({ url }) => {
    const { protocol, hostname, port } = new URL(url)
    const socket = connect({
      host: withoutBrackets(hostname),
      port: Number(port || (protocol === 'https:' ? 443 : 80)),
      signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS),
    })
    await once(socket, 'connect').finally(() => socket.destroy())
  })
  return Promise.any(attempts).then(
    () => true,
    () => false,
  )
}

/** Removes the brackets of an IPv6 address in a URL. */
export function withoutBrackets(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '')
}
