/**
 * The public listener: accepts connections, and performs the TLS handshake if TLS is configured, until the gateway
 * drains.
 */
import cluster from 'node:cluster'
import { constants } from 'node:crypto'
import { createServer, type ListenOptions, type Server, type Socket } from 'node:net'
import {
  createServer as createTlsServer,
  type SecureContextOptions,
  type TLSSocket,
  type Server as TlsServer,
} from 'node:tls'
import { clientNetwork, withoutIpv4Mapping } from '../../shared/contract/client-network.ts'
import { createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import type { Logger } from '../../shared/process/log.ts'
import { acceptWaitingConnections } from '../../shared/process/waiting-connections.ts'
import type { Client } from '../budget/clients.ts'
import type { Call } from '../call/call.ts'
import { CallServer, type CallServerOptions } from './call-server.ts'
import type { TlsKeyPair } from './certificate.ts'
import { clientAddress } from './client-address.ts'
import { Connection, type ConnectionContext } from './connection.ts'
import { connectionIdOf, Handshake } from './handshake.ts'
import {
  assertPortFree,
  closeServer,
  isPortSharingUnsupported,
  listenOn,
} from './listening-socket.ts'
import { onTicketKeys } from './ticket-keys.ts'

/**
 * The number of connections that may wait at each listening socket to be accepted (the kernel's `somaxconn` may be
 * lower). Beyond it, the kernel drops packets of the TCP handshake: clients retry after a second, or believe that they
 * are connected.
 */
const BACKLOG = 4096
/**
 * The number of sockets of this process that listen on the port; one if the platform cannot share ports. libuv accepts
 * one connection per socket in each turn of the event loop: with a single socket, new connections would starve under
 * overload.
 */
const LISTENING_SOCKETS = 16
/**
 * When the gateway starts to drain, idle connections stay open for this long, so that each can carry one last
 * call. If only part of a request has arrived by then, the rest has another `DRAIN_GRACE_MS` to arrive. After this, the
 * next response closes the connection, even if the client has sent more requests.
 */
const DRAIN_GRACE_MS = 3_000
const DEADLINE_CHECK_INTERVAL_MS = 250
/** Half of the default of `DRAIN_TIMEOUT_MS`, since a drain waits for handshakes. */
const HANDSHAKE_TIMEOUT_MS = 5_000
/**
 * A renegotiation (TLS 1.2) would repeat the handshake, which takes most of the CPU time of a connection, but would not
 * count against the limit on handshakes. Browsers and clients of APIs do not need it.
 */
const TLS_OPTIONS: SecureContextOptions = {
  minVersion: 'TLSv1.2',
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
}
/**
 * With `allowHalfOpen`, a client that has closed its half of a connection can still receive a response (see
 * `HALF_CLOSED_MS` in connection.ts).
 */
const SOCKET_OPTIONS = { allowHalfOpen: true, noDelay: true }

type PassedToConnections =
  | 'requestTimeoutMs'
  | 'responseTimeoutMs'
  | 'bodyRateMin'
  | 'connectionAgeMs'
  | 'budget'

export interface ListenerOptions
  extends CallServerOptions,
    Pick<ConnectionContext, PassedToConnections> {
  /** The number of trusted proxies that add to `X-Forwarded-For`. */
  readonly trustedProxies: number
  /** If undefined, the listener speaks plain HTTP. */
  readonly tls: TlsKeyPair | undefined
}

export class Listener {
  readonly #options: ListenerOptions
  readonly #log: Logger
  readonly #calls: CallServer
  readonly #connections = new Set<Connection>()
  readonly #acceptors: Server[] = []
  /** Undefined for plain HTTP. This server does not listen: it gets the connections that `#acceptors` accept. */
  readonly #tls: TlsServer | undefined
  /** The latest keys for TLS session tickets, which the workers share; undefined if there are no workers. */
  #ticketKeys: Buffer | undefined
  readonly #handshakes = new Map<string, Handshake>()
  readonly #deadlineTimer: NodeJS.Timeout
  readonly #connectionContext: ConnectionContext

  constructor(options: ListenerOptions) {
    const { requestTimeoutMs, responseTimeoutMs, bodyRateMin, connectionAgeMs } = options
    const { budget, log, tls } = options
    this.#options = options
    this.#log = log
    this.#calls = new CallServer(options)
    const collapsingLog = createCollapsingLog(log)
    this.#connectionContext = {
      requestTimeoutMs,
      responseTimeoutMs,
      bodyRateMin,
      connectionAgeMs,
      budget,
      clientOf: (call, peer) => this.#clientOf(call, peer),
      serve: (connection, head, arrivedAt) => this.#calls.serve(connection, head, arrivedAt),
      reject: (connection, error) => this.#calls.reject(connection, error),
      onResponseTimeout: (call) =>
        log.warn({ requestId: call?.requestId }, 'the client did not receive its response in time'),
      onUnexpectedError: (err) =>
        collapsingLog.error(
          'connection',
          { err },
          'an unexpected error closed the connection of a client',
        ),
    }
    this.#tls = tls && this.#createTlsServer(tls)
    this.#deadlineTimer = setInterval(() => {
      const now = performance.now()
      for (const connection of this.#connections) connection.checkDeadlines(now)
    }, DEADLINE_CHECK_INTERVAL_MS)
  }

  /** Resolves with the port. */
  async listen(port: number, host: string): Promise<number> {
    if (port !== 0 && cluster.isPrimary) await assertPortFree(port, host)
    // Workers share the port, so that no connection hangs if a worker is killed: the kernel resets those that the
    // worker has not accepted yet. Connections that a parent had passed to the worker would stay open without a
    // response.
    const options = { host, backlog: BACKLOG, reusePort: true }
    let boundPort: number
    try {
      boundPort = await this.#open({ ...options, port })
    } catch (error) {
      // A worker that does not share the port would get its connections from its parent.
      if (!isPortSharingUnsupported(error) || cluster.isWorker) throw error
      return this.#open({ ...options, port, reusePort: false })
    }
    while (this.#acceptors.length < LISTENING_SOCKETS) {
      await this.#open({ ...options, port: boundPort })
    }
    return boundPort
  }

  async #open(options: ListenOptions): Promise<number> {
    // `readAccepted` (accepted-socket.ts) requires a paused socket. With TLS, the TLS server reads the socket.
    const pauseOnConnect = this.#tls === undefined
    const acceptor = createServer({ ...SOCKET_OPTIONS, pauseOnConnect }, (socket) => {
      this.#accept(socket)
    })
    const port = await listenOn(acceptor, options)
    acceptor.on('error', (err) => this.#log.error({ err }, 'cannot accept a connection'))
    this.#acceptors.push(acceptor)
    return port
  }

  /** Sets the certificate for new connections; open connections keep theirs. */
  renewTls(tls: TlsKeyPair): void {
    this.#tls?.setSecureContext({ ...tls, ...TLS_OPTIONS })
    // `setSecureContext` has replaced the ticket keys with random ones.
    if (this.#ticketKeys !== undefined) this.#tls?.setTicketKeys(this.#ticketKeys)
  }

  /**
   * Accepts the connections that the kernel has opened already (and those that it opens meanwhile), then no others.
   * Resolves when every accepted connection is closed.
   */
  async drain(): Promise<void> {
    this.#calls.drain()
    await acceptWaitingConnections(this.#acceptors)
    const closed = Promise.all(this.#acceptors.map(closeServer))
    const closing = setInterval(() => {
      const deadline = performance.now() + DRAIN_GRACE_MS
      for (const connection of this.#connections) connection.closeBy(deadline)
    }, DRAIN_GRACE_MS)
    await closed
    clearInterval(closing)
    clearInterval(this.#deadlineTimer)
  }

  #accept(socket: Socket): void {
    const { budget, trustedProxies } = this.#options
    // After the connection is closed, Node no longer knows the address.
    const address = withoutIpv4Mapping(socket.remoteAddress ?? '')
    const peer = budget.clientOf(clientNetwork(address), { isLimited: trustedProxies === 0 })
    if (this.#tls === undefined) {
      const connection = new Connection(socket, { address, peer }, this.#connectionContext)
      if (budget.open(connection)) this.#track(connection, socket)
      else connection.destroy()
      return
    }
    const handshake = new Handshake(socket, address, peer, budget)
    if (!budget.open(handshake)) {
      handshake.destroy()
      return
    }
    const id = connectionIdOf(socket)
    this.#handshakes.set(id, handshake)
    socket.on('close', () => {
      // If the client has reset this connection, its next one may already have the same id.
      if (this.#handshakes.get(id) === handshake) this.#handshakes.delete(id)
      budget.close(handshake)
    })
    this.#tls.emit('connection', socket)
  }

  #replaceHandshake(socket: TLSSocket): void {
    const id = connectionIdOf(socket)
    const handshake = this.#handshakes.get(id)
    this.#handshakes.delete(id)
    // The handshake is missing if the connection was closed in the meantime.
    if (handshake === undefined) return void socket.destroy()
    const { address, peer } = handshake
    const connection = new Connection(socket, { address, peer }, this.#connectionContext)
    this.#options.budget.replace(handshake, connection)
    this.#track(connection, socket)
  }

  #track(connection: Connection, socket: Socket): void {
    this.#connections.add(connection)
    socket.on('close', () => {
      this.#connections.delete(connection)
      this.#options.budget.close(connection)
    })
  }

  #createTlsServer(tls: TlsKeyPair): TlsServer {
    const server = createTlsServer(
      {
        ...SOCKET_OPTIONS,
        ...tls,
        ...TLS_OPTIONS,
        ALPNProtocols: ['http/1.1'],
        handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      },
      (socket) => this.#replaceHandshake(socket),
    )
    onTicketKeys((keys) => {
      this.#ticketKeys = keys
      server.setTicketKeys(keys)
    })
    return server.on('tlsClientError', (_: Error, socket: Socket) => socket.destroy())
  }

  #clientOf({ record: { address, head } }: Call, peer: Client): Client {
    const { budget, trustedProxies } = this.#options
    if (trustedProxies === 0 || head === undefined) return peer
    const network = clientNetwork(clientAddress(address, head.headers, trustedProxies))
    return budget.clientOf(network, { isLimited: true })
  }
}
