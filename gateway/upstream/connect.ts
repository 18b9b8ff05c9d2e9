/** Creates connection pools. undici opens the connections, over TLS, TCP or a Unix socket. */
import { Agent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import { isIP, type LookupFunction, type OnReadOpts, Socket } from 'node:net'
import { buildConnector } from 'undici'
import { type BackendAddress, withoutBrackets } from './addresses.ts'
import { BackendUnreachable } from './failover.ts'
import { BackendPool, type Connect, type PoolEvents } from './pool.ts'

const CONNECT_TIMEOUT_MS = 1_000
/**
 * Shorter than the backend's own keep-alive timeout, so that no request is sent over a connection that the backend is
 * closing.
 */
const KEEP_ALIVE_MS = 4_000

export function connectPool(
  address: BackendAddress,
  connections: number,
  events: PoolEvents,
): BackendPool {
  return new BackendPool({
    createConnect: (onread) => createConnector(address, onread),
    origin: address.origin,
    size: connections,
    keepAliveMs: KEEP_ALIVE_MS,
    ...events,
  })
}

/**
 * Creates a pool for http-proxy-3, which needs an agent of `node:http`. The agent opens connections like the pools of
 * `connectPool`.
 */
export function createAgent(address: BackendAddress, connections: number): Agent {
  const { protocol, hostname, host, port } = new URL(address.origin)
  const isTls = protocol === 'https:'
  const agent = new (isTls ? TlsAgent : Agent)({
    keepAlive: true,
    maxSockets: connections,
    maxFreeSockets: connections,
    // The agent closes only idle connections after this time. During a request, the timeout only causes an event, which
    // http-proxy-3 ignores.
    timeout: KEEP_ALIVE_MS,
  })
  const connect = createConnector(address)
  const target = { protocol, hostname, host, port: port || (isTls ? '443' : '80') }
  agent.createConnection = (_, done) => {
    // The type requires a socket even if there is an error. The agent then ignores the socket.
    connect(target, (error, socket) => done?.(error, socket ?? new Socket()))
    return undefined
  }
  return agent
}

/** Closes the agent's idle connections immediately, and each other connection when its response ends. */
export function closeAgent(agent: Agent): void {
  agent.maxFreeSockets = 0
  closeIdleConnections(agent)
}

export function closeIdleConnections(agent: Agent): void {
  for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy()
}

/** Every error of the connector is a `BackendUnreachable`. */
function createConnector({ ip, socketPath }: BackendAddress, onread?: OnReadOpts): Connect {
  // `Host` and the certificate check use the host name, but connections are opened to this one address.
  const lookup: LookupFunction | undefined =
    ip === undefined
      ? undefined
      : (_name, { all }, done) => {
          const family = isIP(ip)
          if (all) done(null, [{ address: ip, family }])
          else done(null, ip, family)
        }
  const options = {
    timeout: CONNECT_TIMEOUT_MS,
    allowH2: false,
    ...(lookup === undefined ? {} : { lookup }),
    ...(socketPath === undefined ? {} : { socketPath }),
    ...(onread === undefined ? {} : { onread }),
  } as buildConnector.BuildOptions
  const connect = buildConnector(options)
  return (origin, done) => {
    // With brackets, an IPv6 address would be resolved as a name, and would not match the address in a certificate.
    const hostname = withoutBrackets(origin.hostname)
    connect({ ...origin, hostname }, (error, socket) => {
      if (error === null) done(null, socket)
      else done(new BackendUnreachable(error), null)
    })
  }
}
