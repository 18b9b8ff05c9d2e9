/**
 * Forwards page requests, and the requests in which a mail server posts incoming mail, to a backend with http-proxy-3
 * (docs/decisions/0005-proxy-for-pages.md). Only allow-listed headers are forwarded. The response is written by
 * `downstream/` (`selfHandleResponse`): http-proxy-3 would crash on an invalid status, and would make an incomplete
 * response look complete.
 */
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { Readable } from 'node:stream'
import httpProxy from 'http-proxy-3'
import { clientNetwork } from '../../shared/contract/client-network.ts'
import {
  CLIENT_ADDRESS_HEADER,
  SIGNATURE_HEADER,
  signRequest,
} from '../../shared/contract/principal.ts'
import { Problem, temporarilyUnavailable } from '../../shared/contract/problem.ts'
import { createSpanId, traceHeaders } from '../../shared/process/trace.ts'
import type { Abort } from '../call/abort.ts'
import type { CallRecord } from '../call/call-record.ts'
import { clientAddress } from '../downstream/client-address.ts'
import type { Response, WholeResponse } from '../downstream/response.ts'
import { isFieldValue } from '../http1/fields.ts'
import type { RequestHead } from '../http1/request-head.ts'
import type { Backend, Backends } from '../upstream/backends.ts'
import { isUnreachable, sendWithFailover } from '../upstream/failover.ts'
import { headersForClient } from '../upstream/response-headers.ts'
import { bufferPage, PageTimeout } from './page-body.ts'
import { type PageRoute, pageRouteOf } from './page-route.ts'
import { PageSlots } from './page-slots.ts'
import { createProblemPages, OUTCOME_UNKNOWN } from './problem-page.ts'

/** How long a page request waits for one of the `PageSlots`, which limit concurrent page requests. */
const SLOT_WAIT_MS = 5_000

/** The request headers that are forwarded on every route. */
const REQUEST_HEADERS = [
  'accept',
  'accept-language',
  'content-type',
  'cookie',
  'if-modified-since',
  'if-none-match',
  'origin',
  'referer',
  'sec-fetch-dest',
  'sec-fetch-mode',
  'sec-fetch-site',
  'user-agent',
  'x-csrf-token',
]

export interface PagesProxy {
  /** Undefined if no page has this path. */
  routeOf(path: string): PageRoute | undefined
  /** See `createProblemPages`. */
  problemPage(problem: Problem, head: RequestHead, requestId: string): WholeResponse | undefined
  /**
   * Rejects with `Problem` 503 if no backend is reachable or accepts the gateway's signature, or if the page gets no
   * slot; with 504 if the backend does not respond in time; and with 502 after any other failure. If the call is
   * aborted with a `Problem`, rejects with this problem.
   */
  forward(request: PageRequest): Promise<Response>
  readonly waitingPages: number
}

export interface PageRequest {
  readonly head: RequestHead
  readonly route: PageRoute
  readonly body: Buffer
  readonly requestId: string
  readonly record: CallRecord
  readonly abort: Abort
}

export interface PagesProxyOptions {
  readonly baseUrl: string
  readonly backends: Backends
  readonly gatewaySecrets: readonly string[]
  /**
   * How long a backend may take to send the head of a response, its body if it is small, or the next part of a large
   * body.
   */
  readonly timeoutMs: number
  readonly servesPages: boolean
  /** The number of trusted proxies in front of the gateway that add to `X-Forwarded-For`. */
  readonly trustedProxies: number
}

export function createPagesProxy(options: PagesProxyOptions): PagesProxy {
  const { backends, gatewaySecrets, timeoutMs, trustedProxies, servesPages } = options
  const slots = new PageSlots(backends.concurrentPagesMax, SLOT_WAIT_MS)
  const exchange = createExchange({ gatewaySecrets, timeoutMs })

  async function forward(request: PageRequest): Promise<Response> {
    const { head, record, abort } = request
    const client = clientAddress(record.address, head.headers, trustedProxies)
    const release = await slots.acquire(clientNetwork(client), abort)
    const from = performance.now()
    const isReadOnly = head.method === 'GET' || head.method === 'HEAD'
    // After a failure before the response, a request is repeated if the backend did not process it, or if it is
    // read-only. After a timeout, no request is repeated, because the client has already waited long.
    const mayRetry = (error: unknown) =>
      abort.reason === undefined &&
      (error instanceof GatewayRejected || (isReadOnly && !(error instanceof PageTimeout)))
    try {
      const response = await sendWithFailover(
        backends,
        (backend) => send(request, client, backend),
        mayRetry,
      )
      response.once('close', release)
      return await clientResponseOf(head.method, response, timeoutMs)
    } catch (cause) {
      release()
      throw cause instanceof Problem ? cause : pageProblem(cause, isReadOnly)
    } finally {
      record.upstreamMs += performance.now() - from
    }
  }

  async function send(
    request: PageRequest,
    client: string,
    backend: Backend,
  ): Promise<IncomingMessage> {
    request.record.backend = backend.url
    backend.inFlight++
    const countAsEnded = () => void backend.inFlight--
    try {
      const response = await exchange(request, client, backend)
      response.once('close', countAsEnded)
      if (isBare404(response)) {
        response.resume()
        throw new GatewayRejected('the backend rejected the signature of the gateway')
      }
      backends.recordResult(backend, { isFailed: Number(response.statusCode) >= 500 })
      return response
    } catch (error) {
      // The `close` event of the rejected response calls `countAsEnded`.
      if (error instanceof GatewayRejected) throw error
      countAsEnded()
      // `sendWithFailover` itself marks an unreachable backend.
      const isFailure = !isUnreachable(error) && request.abort.reason === undefined
      if (isFailure) backends.recordResult(backend, { isFailed: true })
      throw error
    }
  }

  const routeOf = (path: string) => pageRouteOf(path, servesPages)
  return {
    routeOf,
    problemPage: createProblemPages(options.baseUrl, routeOf),
    forward,
    get waitingPages() {
      return slots.waitingPages
    },
  }
}

type Exchange = (request: PageRequest, client: string, backend: Backend) => Promise<IncomingMessage>

/** The promise of the returned function resolves when the response's head has arrived. */
function createExchange({
  gatewaySecrets,
  timeoutMs,
}: Pick<PagesProxyOptions, 'gatewaySecrets' | 'timeoutMs'>): Exchange {
  const proxy = httpProxy.createProxyServer({
    selfHandleResponse: true,
    toProxy: true,
    xfwd: false,
  })
  const pending = new WeakMap<IncomingMessage, PromiseWithResolvers<IncomingMessage>>()
  proxy.on('proxyRes', (response, req) => pending.get(req)?.resolve(response))
  proxy.on('proxyReq', (proxyReq, req) => {
    // `node:http` reports no error if it closes a connection because of a 101.
    proxyReq.once('close', () => pending.get(req)?.reject(new Error('there was no response')))
  })

  return (
    { head, route, body, requestId, abort, record: { trace } }: PageRequest,
    client: string,
    { agent, address: { origin } }: Backend,
  ) => {
    // http-proxy-3 drops a lone question mark, and the signature must cover the path that is sent.
    const path = head.query === '?' ? head.path : head.path + head.query
    const forwarded = [...REQUEST_HEADERS, ...(route.headers ?? [])]
    // These objects have no connection; http-proxy-3 only requires their types.
    const req = new IncomingMessage(new Socket())
    const res = new ServerResponse(req)
    req.method = head.method
    req.url = path
    req.headers = requestHeaders(head, body, forwarded, {
      host: new URL(origin).host,
      ...(trace === undefined ? {} : traceHeaders(trace, createSpanId())),
      'x-request-id': requestId,
      [CLIENT_ADDRESS_HEADER]: client,
      [SIGNATURE_HEADER]: signRequest(
        { method: head.method, path, body },
        Date.now(),
        gatewaySecrets,
      ),
    })
    if (abort.reason !== undefined) return Promise.reject(abort.reason)
    const exchange = Promise.withResolvers<IncomingMessage>()
    const fail = (reason: Error) => {
      // http-proxy-3 silently aborts its request on this event.
      res.emit('close')
      exchange.reject(reason)
    }
    // The timeout of http-proxy-3 begins again with each byte, such as those of an informational response (1xx).
    const timer = setTimeout(() => fail(new PageTimeout('no response in time')), timeoutMs)
    pending.set(req, exchange)
    abort.listen({ abort: fail })
    const buffer = Readable.from([body])
    proxy.web(req, res, { target: origin, agent, buffer }, exchange.reject)
    return exchange.promise.finally(() => clearTimeout(timer))
  }
}

/** The backend has not processed the request: its `GATEWAY_SECRET` or its clock differs from the gateway's. */
class GatewayRejected extends Error {}

/** Only a rejected signature gets a 404 without a body: for a page that does not exist, the backend sends a page. */
function isBare404({ statusCode, headers }: IncomingMessage): boolean {
  return statusCode === 404 && headers['content-length'] === '0'
}

/** Rejects if the backend's response is malformed, late or incomplete. */
async function clientResponseOf(
  method: string,
  response: IncomingMessage,
  timeoutMs: number,
): Promise<Response> {
  const { statusCode: status = 0, headers, rawHeaders } = response
  const fields = rawHeaders.map((text, index) => (index % 2 === 0 ? text.toLowerCase() : text))
  const hasNoBody = method === 'HEAD' || status === 204 || status === 304
  const length = headers['content-length']
  // A body that ends with its connection would look complete even if the connection broke.
  const isFramed = length !== undefined || headers['transfer-encoding'] === 'chunked'
  const isValid = status >= 200 && status <= 599 && fields.every(isFieldValue)
  if (!isValid || !(hasNoBody || isFramed)) {
    response.destroy()
    throw new Error('the response is malformed')
  }
  const body = await bufferPage(response, timeoutMs)
  // `downstream/` adds the length of a buffered body. A response to HEAD or a 304 has the length of the body that
  // a GET would return.
  const forwardsLength = !Buffer.isBuffer(body) || (hasNoBody && status !== 204)
  const lengthField = length === undefined || !forwardsLength ? [] : ['content-length', length]
  return {
    status,
    headers: [...headersForClient(fields), ...lengthField],
    body: hasNoBody ? undefined : body,
  }
}

function requestHeaders(
  head: RequestHead,
  body: Buffer,
  forwarded: readonly string[],
  added: Readonly<Record<string, string>>,
) {
  const headers: Record<string, string> = { ...added }
  for (const name of forwarded) {
    const value = head.headers.get(name)
    if (value !== undefined) headers[name] = value
  }
  if (body.length > 0 || head.method === 'POST' || head.method === 'PUT') {
    headers['content-length'] = String(body.length)
  }
  return headers
}

function pageProblem(cause: unknown, isReadOnly: boolean): Problem {
  if (isUnreachable(cause) || cause instanceof GatewayRejected) {
    const detail = 'This page is temporarily unavailable. Try again in a second.'
    return temporarilyUnavailable(detail, { cause })
  }
  const isLate = cause instanceof PageTimeout
  const detail = isLate
    ? 'The page took too long to load. Try again.'
    : 'The page could not be loaded. Try again.'
  const code = isLate ? 'gateway_timeout' : 'bad_gateway'
  return new Problem(code, isReadOnly ? detail : OUTCOME_UNKNOWN, { cause })
}
