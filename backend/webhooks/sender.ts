/** One attempt: a POST to wherever an account says, with a bound on everything that comes back. */
import { Agent, type Dispatcher, errors } from 'undici'
import { type ConnectorOptions, createConnector, TargetError } from './connector.ts'

/** From the look-up of the name to the end of the answer. */
const ATTEMPT_MS_MAX = 15_000

/** Of the answer; what comes after is not read. */
const RESPONSE_BYTES_MAX = 65_536
const RESPONSE_HEADER_BYTES_MAX = 16_384

/** Shown in the log. */
const SHOWN_BYTES_MAX = 1024
const SHOWN_HEADERS_MAX = 50

/** Shorter than receivers keep theirs, so that no attempt dies of a connection that just closed. */
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
  | 'cut_off'

export interface AttemptResult {
  /** 2xx, and the whole answer (or as much of it as we read) in time. */
  readonly succeeded: boolean
  /** Null where no answer came. */
  readonly statusCode: number | null
  /** Null where the answer is complete, whatever its status. */
  readonly error: AttemptError | null
  readonly responseHeaders: Readonly<Record<string, string>> | null
  /** The first 1 kB. */
  readonly responseBody: string | null
  readonly durationMs: number
}

export interface Sender {
  /** Never throws: whatever goes wrong is the attempt's result. */
  send(request: OutgoingRequest): Promise<AttemptResult>
  /** Ends what is under way, with the error `cut_off`. */
  cutOff(): void
  close(): Promise<void>
}

export interface SenderOptions extends ConnectorOptions {
  readonly attemptMsMax?: number
}

export function createSender(options: SenderOptions): Sender {
  const { attemptMsMax = ATTEMPT_MS_MAX } = options
  // No bound on connections: a receiver that hangs must not hold up another account's at the same
  // host. How much is under way is the worker's affair. Proxies of the environment are not used.
  const agent = new Agent({
    connect: createConnector(options),
    allowH2: false,
    pipelining: 1,
    keepAliveTimeout: IDLE_MS_MAX,
    keepAliveMaxTimeout: IDLE_MS_MAX,
    maxHeaderSize: RESPONSE_HEADER_BYTES_MAX,
    // The attempt's own bound covers both.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  const underWay = new Set<AbortController>()
  return {
    async send(request) {
      const startedAt = performance.now()
      const ending = new AbortController()
      const timer = setTimeout(() => ending.abort('timeout'), attemptMsMax)
      underWay.add(ending)
      const received: Received = { chunks: [] }
      const error = await exchange(agent, request, ending.signal, received).then(
        () => null,
        (reason: unknown) => codeOf(reason),
      )
      clearTimeout(timer)
      underWay.delete(ending)
      return resultOf(received, error, Math.round(performance.now() - startedAt))
    },
    cutOff() {
      for (const ending of underWay) ending.abort('cut_off')
    },
    // What is under way was cut off before; idle connections need no farewell.
    close: () => agent.destroy(),
  }
}

/** Filled as it arrives, so that what came before a failure is known. */
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
  // A redirect is an answer like any other: nothing here follows it.
  const answer = await agent.request({ origin, path, method: 'POST', headers, body, signal })
  received.statusCode = answer.statusCode
  received.headers = answer.headers
  let bytes = 0
  for await (const chunk of answer.body) {
    if (!Buffer.isBuffer(chunk)) continue
    if (bytes < SHOWN_BYTES_MAX) received.chunks.push(chunk)
    bytes += chunk.length
    // Leaving the loop destroys the body and its connection.
    if (bytes >= RESPONSE_BYTES_MAX) break
  }
}

function resultOf(
  { statusCode: answered, headers, chunks }: Received,
  error: AttemptError | null,
  durationMs: number,
): AttemptResult {
  const statusCode = answered ?? null
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
    shown.map(([name, value]) => [name, String(value).slice(0, SHOWN_BYTES_MAX)]),
  )
}

/** U+0000 is text that PostgreSQL does not keep. */
function shownText(chunks: readonly Buffer[]): string {
  return Buffer.concat(chunks).subarray(0, SHOWN_BYTES_MAX).toString('utf8').replaceAll('\0', '�')
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

/** Certificates are refused under many names: `CERT_HAS_EXPIRED`, `DEPTH_ZERO_SELF_SIGNED_CERT`… */
const TLS_ERROR =
  /^(?:CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO)/

/** Of what undici throws, or of the reason that it was aborted for. */
function codeOf(reason: unknown): AttemptError {
  if (reason === 'timeout' || reason === 'cut_off') return reason
  if (reason instanceof TargetError) return reason.code
  const code = reason instanceof Error && 'code' in reason ? String(reason.code) : ''
  if (TLS_ERROR.test(code)) return 'tls_failed'
  // The parser's error has a code only where its parser gives one.
  if (reason instanceof errors.HTTPParserError) return 'invalid_response'
  return ERRORS[code] ?? 'connection_failed'
}
