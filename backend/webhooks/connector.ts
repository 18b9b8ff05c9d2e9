/**
 * Connects a delivery to an address that was checked, and to no other: the name is resolved once for
 * each connection, every address of the answer is judged, and the socket goes to one of those very
 * addresses, so that a name cannot mean one thing when it is checked and another when it is used. A
 * name of which any address is not allowed is refused whole.
 *
 * Resolved with c-ares: `dns.lookup` takes a thread of the pool that the database lives on.
 */
import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { buildConnector } from 'undici'
import { isGlobalUnicast, isLoopbackAddress } from './addresses.ts'
import type { PrivateTargets } from './target-url.ts'

/** Each is part of the attempt's 15 s. */
const CONNECT_MS_MAX = 10_000
const DNS_TRY_MS_MAX = 2000
const DNS_TRIES = 2

export interface ConnectorOptions {
  readonly privateTargets: PrivateTargets
  /** Names servers to ask in place of the system's, as `127.0.0.1:5353`. */
  readonly dnsServers?: readonly string[] | undefined
  /** Trusted in place of the well-known authorities. */
  readonly ca?: string | undefined
}

/** Why there is no connection; `code` is what the log shows. */
export class TargetError extends Error {
  readonly code: 'target_not_allowed' | 'dns_failed'

  constructor(code: TargetError['code'], message: string) {
    super(message)
    this.name = 'TargetError'
    this.code = code
  }
}

export function createConnector(options: ConnectorOptions): buildConnector.connector {
  const connect = buildConnector({
    allowH2: false,
    timeout: CONNECT_MS_MAX,
    // A session of one account's endpoint is no other's.
    maxCachedSessions: 0,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.2',
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  })
  const resolver = new Resolver({ timeout: DNS_TRY_MS_MAX, tries: DNS_TRIES })
  if (options.dnsServers !== undefined) resolver.setServers(options.dnsServers)
  const isAllowed = options.privateTargets === 'allow' ? () => true : isGlobalUnicast

  async function addressesOf(hostname: string): Promise<readonly string[]> {
    const host = hostname.replace(/^\[(.*)\]$/, '$1')
    if (isIP(host) !== 0) return [host]
    // Resolvers know this name by convention only, some not at all.
    if (/^(?:.*\.)?localhost\.?$/i.test(host)) return ['127.0.0.1', '::1']
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  }

  async function checkedAddresses(protocol: string, hostname: string): Promise<readonly string[]> {
    const addresses = await addressesOf(hostname)
    if (addresses.length === 0) throw new TargetError('dns_failed', 'The name has no address')
    const isPlain = protocol !== 'https:'
    const allowed = addresses.every((address) => {
      return isAllowed(address) && (!isPlain || isLoopbackAddress(address))
    })
    if (allowed) return addresses
    throw new TargetError('target_not_allowed', 'The name leads into a network we do not send to')
  }

  return (target, callback) => {
    const { protocol, hostname } = target
    const isName = isIP(hostname) === 0 && !hostname.startsWith('[')
    const named = protocol === 'https:' && isName ? { ...target, servername: hostname } : target
    const attempt = ([address, ...others]: readonly string[]): void => {
      connect({ ...named, hostname: address ?? '' }, (error, socket) => {
        if (error === null) callback(null, socket)
        else if (others.length > 0) attempt(others)
        else callback(error, null)
      })
    }
    checkedAddresses(protocol, hostname).then(attempt, (error: Error) => callback(error, null))
  }
}
