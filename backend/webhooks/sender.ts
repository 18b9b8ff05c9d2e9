/** Sends a POST to an endpoint's URL, with limits on the size and the duration of the response. */
import { Agent, type Dispatcher, errors } from 'undici'
import { type ConnectorOptions, createConnector, TargetError } from './connector.ts'

/** The maximum time from the beginning of name resolution to the end of the response. */
export const ATTEMPT_MS_MAX = 15_000

/** How many bytes of the response body are read. */
const RESPONSE_BYTES_MAX = 65_536
const RESPONSE_HEADER_BYTES_MAX = 16_384

/** How many bytes of the body, and how many characters of each header, the delivery log shows. */
const SHOWN_LENGTH_MAX = 1024
const SHOWN_HEADERS_MAX = 50

/**
 * How long an idle connection is kept, which is shorter than receivers usually keep it. Otherwise an attempt could fail
 * on a connection that the receiver has just closed.
 */
const IDLE_MS_MAX = 2000

export interface OutgoingRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export type AttemptError =
  | 'timeout'
  | 'dns_failed'
  | 'target_not_allowed'
  | 'connection_refused'
  | 'connection_reset'
  | 'connection_failed'
  | 'tls_failed'
  | 'invalid_response'
  | 'aborted'

export interface AttemptResult {
  /** Whether the status was 2xx and `error` is null. */
  readonly succeeded: boolean
  /** Null if there was no response. */
  readonly statusCode: number | null
  /**
   * Null if a response with any status arrived, with its whole body or at least `RESPONSE_BYTES_MAX` bytes of the body.
   */
  readonly error: AttemptError | null
  readonly responseHeaders: Readonly<Record<string, string>> | null
  /** The first 1 KiB of the body; null if there was no response. */
  readonly responseBody: string | null
  readonly durationMs: number
}

export interface Sender {
  /** Never throws: errors are part of the attempt's result. */
  send(request: OutgoingRequest): Promise<AttemptResult>
  /** Aborts the attempts in progress with the error `aborted`. */
  abortAll(): void
  /**
   * Aborts the attempts in progress, and closes the connections. Called after the worker of deliveries was drained, so
   * only test events, which Settings sends, can be aborted.
   */
  close(): Promise<void>
}

export interface SenderOptions extends ConnectorOptions {
  readonly attemptMsMax?: number
}

export function createSender(options: SenderOptions): Sender {
  const { attemptMsMax = ATTEMPT_MS_MAX } = options
  // The number of connections is not limited, so that a receiver that hangs does not delay another account's
  // endpoint on the same host; the worker limits the attempts. Proxy settings in the environment are ignored.
  const agent = new Agent({
    connect: createConnector(options, attemptMsMax),
    allowH2: false,
    pipelining: 1,
    keepAliveTimeout: IDLE_MS_MAX,
    keepAliveMaxTimeout: IDLE_MS_MAX,
    maxHeaderSize: RESPONSE_HEADER_BYTES_MAX,
    // The timeout of the whole attempt replaces these two.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  const inProgress = new Set<AbortController>()
  const abortAll = () => {
    for (const controller of inProgress) controller.abort('aborted')
  }
  return {
    async send(request) {
      const startedAt = performance.now()
      const controller = new AbortController()
      const timer = setTimeout(() => controller.abort('timeout'), attemptMsMax)
      inProgress.add(controller)
      const received: Received = { chunks: [] }
      const error = await Promise.race([
        exchange(agent, request, controller.signal, received),
        abortOf(controller.signal),
      ]).then(
        () => null,
        (reason: unknown) => codeOf(reason),
      )
      clearTimeout(timer)
      inProgress.delete(controller)
      return resultOf(received, error, Math.round(performance.now() - startedAt))
    },
    abortAll,
    close() {
      // Without this, an attempt in progress would fail as if the receiver had closed the connection.
      abortAll()
      return agent.destroy()
    },
  }
}

/** Rejects when the signal is aborted. The agent itself ignores an abort until the request has a connection. */
function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

/**
 * What has arrived of the response, as far as the delivery log shows it. It is kept even if the attempt fails later.
 */
interface Received {
  statusCode?: number
  headers?: Dispatcher.ResponseData['headers']
  readonly chunks: Buffer[]
}

async function exchange(
  agent: Agent,
  { url, headers, body }: OutgoingRequest,
  signal: AbortSignal,
  received: Received,
): Promise<void> {
  const { origin, pathname, search } = new URL(url)
  const path = pathname + search
  // A redirect is not followed: it is a response like any other.
  const response = await agent.request({ origin, path, method: 'POST', headers, body, signal })
  received.statusCode = response.statusCode
  received.headers = response.headers
  let bytes = 0
  for await (const chunk of response.body) {
    if (!Buffer.isBuffer(chunk)) continue
    if (bytes < SHOWN_LENGTH_MAX) received.chunks.push(chunk)
    bytes += chunk.length
    // Leaving the loop destroys the body and its connection.
    if (bytes >= RESPONSE_BYTES_MAX) break
  }
}

function resultOf(
  { statusCode: receivedStatus, headers, chunks }: Received,
  error: AttemptError | null,
  durationMs: number,
): AttemptResult {
  const statusCode = receivedStatus ?? null
  const isSuccess = statusCode !== null && statusCode >= 200 && statusCode < 300
  return {
    succeeded: isSuccess && error === null,
    statusCode,
    error,
    responseHeaders: headers === undefined ? null : shownHeaders(headers),
    responseBody: statusCode === null ? null : shownText(chunks),
    durationMs,
  }
}

function shownHeaders(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  const shown = Object.entries(headers).slice(0, SHOWN_HEADERS_MAX)
  return Object.fromEntries(
    shown.map(([name, value]) => [name, String(value).slice(0, SHOWN_LENGTH_MAX)]),
  )
}

/** Returns the part of the body that the delivery log shows. Replaces U+0000, which PostgreSQL cannot store in text. */
function shownText(chunks: readonly Buffer[]): string {
  return Buffer.concat(chunks).subarray(0, SHOWN_LENGTH_MAX).toString('utf8').replaceAll('\0', '�')
}

const ERRORS: Readonly<Record<string, AttemptError>> = {
  ECONNREFUSED: 'connection_refused',
  ECONNRESET: 'connection_reset',
  EPIPE: 'connection_reset',
  UND_ERR_SOCKET: 'connection_reset',
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  ETIMEDOUT: 'timeout',
  UND_ERR_HEADERS_OVERFLOW: 'invalid_response',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'invalid_response',
}

/** The beginnings of the codes of TLS errors. Invalid certificates have many codes, such as `CERT_HAS_EXPIRED`. */
const TLS_ERRORS = [
  ...['CERT_', 'DEPTH_ZERO_', 'EPROTO', 'ERROR_IN_CERT_', 'ERR_SSL_', 'ERR_TLS_'],
  ...['HOSTNAME_MISMATCH', 'INVALID_CA', 'INVALID_PURPOSE', 'PATH_LENGTH_EXCEEDED'],
  ...['SELF_SIGNED_', 'UNABLE_TO_'],
]

function codeOf(reason: unknown): AttemptError {
  if (reason === 'timeout' || reason === 'aborted') return reason
  if (reason instanceof TargetError) return reason.code
  const code = reason instanceof Error && 'code' in reason ? String(reason.code) : ''
  if (TLS_ERRORS.some((start) => code.startsWith(start))) return 'tls_failed'
  // HTTPParserError does not always have a code.
  if (reason instanceof errors.HTTPParserError) return 'invalid_response'
  return ERRORS[code] ?? 'connection_failed'
}
