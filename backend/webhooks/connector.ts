/**
 * Connects deliveries only to addresses that were checked. For each connection, the name is resolved once, every
 * resulting address is checked, and one of these addresses is used. An attacker can therefore not change the address
 * between check and use. A name is rejected if any of its addresses is not allowed.
 *
 * Names are resolved with c-ares, because `dns.lookup` would occupy threads of the libuv pool, which SQLite needs.
 */
import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { buildConnector } from 'undici'
import { isGlobalUnicast, isLoopbackAddress } from './addresses.ts'
import type { PrivateTargetPolicy } from './target-url.ts'

/** These times count toward the time limit of the attempt to deliver (`attemptMsMax`). */
const CONNECT_MS_MAX = 10_000
const DNS_TRY_MS_MAX = 2000
const DNS_TRIES = 2

/**
 * The limit for each address of a name except the last. It is shorter, so that the next addresses are tried in time.
 */
const CONNECT_MS_MAX_BEFORE_OTHERS = 4000

export interface ConnectorOptions {
  readonly privateTargetPolicy: PrivateTargetPolicy
  /** DNS servers to query instead of the system's, e.g. `127.0.0.1:5353`. */
  readonly dnsServers?: readonly string[] | undefined
  /** The certificate authorities to trust instead of those that Node.js trusts by default. */
  readonly ca?: string | undefined
}

/**
 * Thrown if the name cannot be resolved, or if one of its addresses is not allowed. The delivery log shows `code`.
 */
export class TargetError extends Error {
  readonly code: 'target_not_allowed' | 'dns_failed'

  constructor(code: TargetError['code'], message: string) {
    super(message)
    this.name = 'TargetError'
    this.code = code
  }
}

/** `attemptMsMax` is the time limit of each attempt to deliver. After this time, no further address is tried. */
export function createConnector(
  options: ConnectorOptions,
  attemptMsMax: number,
): buildConnector.connector {
  const connectWithin = (timeout: number) =>
    buildConnector({
      allowH2: false,
      timeout,
      // The TLS session of one account's endpoint must not be resumed for another account.
      maxCachedSessions: 0,
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
      ...(options.ca === undefined ? {} : { ca: options.ca }),
    })
  const connectToLast = connectWithin(CONNECT_MS_MAX)
  const connectBeforeOthers = connectWithin(CONNECT_MS_MAX_BEFORE_OTHERS)
  const resolver = new Resolver({ timeout: DNS_TRY_MS_MAX, tries: DNS_TRIES })
  if (options.dnsServers !== undefined) resolver.setServers(options.dnsServers)
  const isAllowed = options.privateTargetPolicy === 'allow' ? () => true : isGlobalUnicast

  async function addressesOf(hostname: string): Promise<readonly string[]> {
    const host = hostname.replace(/^\[(.*)\]$/, '$1')
    if (isIP(host) !== 0) return [host]
    // Not every resolver resolves `localhost`.
    if (/^(?:.*\.)?localhost\.?$/i.test(host)) return ['127.0.0.1', '::1']
    const responses = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    return responses.flatMap((response) => (response.status === 'fulfilled' ? response.value : []))
  }

  async function checkedAddresses(protocol: string, hostname: string): Promise<readonly string[]> {
    const addresses = await addressesOf(hostname)
    if (addresses.length === 0) throw new TargetError('dns_failed', 'The name cannot be resolved')
    // Without TLS, events may be sent only to loopback addresses.
    const isUnencrypted = protocol !== 'https:'
    const areAllowed = addresses.every((address) => {
      return isAllowed(address) && (!isUnencrypted || isLoopbackAddress(address))
    })
    if (areAllowed) return addresses
    throw new TargetError('target_not_allowed', 'The name has an address that is not allowed')
  }

  return (target, callback) => {
    const { protocol, hostname } = target
    const isName = isIP(hostname) === 0 && !hostname.startsWith('[')
    // The connection uses an address, but TLS must verify the certificate of the name.
    const namedTarget =
      protocol === 'https:' && isName ? { ...target, servername: hostname } : target
    const startedAt = performance.now()
    const tryAddresses = ([address, ...others]: readonly string[], firstError?: Error): void => {
      const connect = others.length === 0 ? connectToLast : connectBeforeOthers
      connect({ ...namedTarget, hostname: address ?? '' }, (error, socket) => {
        if (error === null) callback(null, socket)
        else if (others.length > 0 && performance.now() - startedAt < attemptMsMax)
          tryAddresses(others, firstError ?? error)
        // The first error is reported: IPv6 addresses come last, and the last error may only say that this machine has
        // no IPv6.
        else callback(firstError ?? error, null)
      })
    }
    checkedAddresses(protocol, hostname).then(
      (addresses) => tryAddresses(addresses),
      (error: Error) => callback(error, null),
    )
  }
}
