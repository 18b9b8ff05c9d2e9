/** Node's server, plain or with TLS, with our limits and without what it would answer by itself. */
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import { PARSED_BYTES_MAX } from './raw-heads.ts'

/** From the first byte of a request to the end of its head, at most. */
const HEAD_TIMEOUT_MS = 10_000
/** How long an idle connection is kept. Balancers in front should keep theirs for less. */
const KEEP_ALIVE_MS = 65_000
/** A socket on which nothing moves although an answer is due: a reader that stalls. */
const STALLED_MS = 30_000
/** For a client to agree on keys with us; well within the time that a drain may take. */
const HANDSHAKE_TIMEOUT_MS = 5_000

const TLS_VERSION_MIN = 'TLSv1.2'

/** In PEM form: the certificate with its chain, and its key. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
}

export type HttpServer = Server & Partial<Pick<TlsServer, 'setSecureContext'>>

export function createHttpServer(requestTimeoutMs: number, tls: TlsFiles | undefined): HttpServer {
  const options = {
    // Ours to check and to answer; Node's own answer would lack our headers.
    requireHostHeader: false,
    insecureHTTPParser: false,
    maxHeaderSize: PARSED_BYTES_MAX,
    headersTimeout: Math.min(HEAD_TIMEOUT_MS, requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The default looks for overdue requests every 30 s only.
    connectionsCheckingInterval: 1_000,
    noDelay: true,
  }
  const server: HttpServer =
    tls === undefined
      ? createServer(options)
      : createTlsServer({
          ...options,
          ...tls,
          // As plain servers are: what is closed in one direction may still be read, see `LINGER_MS`.
          allowHalfOpen: true,
          minVersion: TLS_VERSION_MIN,
          ALPNProtocols: ['http/1.1'],
          handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
        })
  // The default drops headers beyond 2,000 silently; ours are counted by `checkHead`.
  server.maxHeadersCount = 0
  server.timeout = STALLED_MS
  // A client that closed its half may still read; see `HALF_CLOSED_MS`. An old property that the
  // types do not know.
  Object.assign(server, { httpAllowHalfOpen: true })
  return server
}

/** For connections to come; those that are open keep what they have. */
export function renewTls(server: HttpServer, tls: TlsFiles): void {
  server.setSecureContext?.({ ...tls, minVersion: TLS_VERSION_MIN })
}
