/**
 * Forwards page requests of browsers to a backend by http-proxy-3. The request is validated and its body
 * read before, its headers are an allow-list, and the listener writes the response
 * (`selfHandleResponse`): http-proxy-3 itself would crash on an invalid status, and a response that
 * breaks off would look whole.
 */
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { Readable } from 'node:stream'
import httpProxy from 'http-proxy-3'
import {
  CLIENT_ADDRESS_HEADER,
  SIGNATURE_HEADER,
  signRequest,
} from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { createSpanId, traceHeaders } from '../../shared/process/trace.ts'
import type { Abort } from '../call/abort.ts'
import type { CallRecord } from '../call/call-record.ts'
import { clientAddress } from '../downstream/client-address.ts'
import type { Response } from '../downstream/response.ts'
import { isFieldValue } from '../http1/fields.ts'
import type { RequestHead } from '../http1/request-head.ts'
import type { BackendAddress } from '../upstream/addresses.ts'
import type { Backend, Backends } from '../upstream/backends.ts'
import { isUnreachable, sendWithFailover } from '../upstream/failover.ts'
import { clientHeaders } from '../upstream/response-headers.ts'

/**
 * Inbound mail may have attachments, and its sender does not retry a mail that was rejected. The backend
 * needs only the beginning of a mail: that is forwarded, the rest is read and dropped.
 */
const MAIL_BYTES_MAX = 40 * 1024 * 1024

/** The request headers that every page may receive. */
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

export interface PageRoute {
  readonly prefix: string
  readonly methods: readonly string[]
  /** The largest accepted body; `BODY_BYTES_MAX` if undefined. */
  readonly bodyBytesMax?: number
  /** Further request headers that the backend receives. */
  readonly headers?: readonly string[]
}

const PAGES: readonly PageRoute[] = [
  { prefix: '/settings', methods: ['GET', 'HEAD', 'POST', 'PUT'] },
  { prefix: '/docs', methods: ['GET', 'HEAD'], headers: ['accept-encoding'] },
]

/** Links in mails lead here, so that every gateway serves these. */
const MAIL: readonly PageRoute[] = [
  { prefix: '/mail/unsubscribe', methods: ['GET', 'HEAD', 'POST'] },
  {
    prefix: '/mail/inbound',
    methods: ['POST'],
    headers: ['authorization'],
    bodyBytesMax: MAIL_BYTES_MAX,
  },
]

export interface PagesProxy {
  /** Undefined if no page has this path. */
  routeOf(path: string): PageRoute | undefined
  /** Throws `Problem` 502 or 503 if no backend responds. */
  forward(request: PageRequest): Promise<Response>
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
  readonly backends: Backends
  readonly gatewaySecrets: readonly string[]
  readonly timeoutMs: number
  /** Otherwise only the links in mails are served. */
  readonly servesPages: boolean
  /** How many proxies in front of the gateway add to `X-Forwarded-For`. */
  readonly trustedProxies: number
}

export function createPagesProxy(options: PagesProxyOptions): PagesProxy {
  const { backends, gatewaySecrets, timeoutMs, trustedProxies, servesPages } = options
  const routes = servesPages ? [...PAGES, ...MAIL] : MAIL
  const proxy = httpProxy.createProxyServer({
    selfHandleResponse: true,
    toProxy: true,
    xfwd: false,
    proxyTimeout: timeoutMs,
  })
  const waiting = new WeakMap<IncomingMessage, (response: IncomingMessage) => void>()
  proxy.on('proxyRes', (response, req) => waiting.get(req)?.(response))

  async function forward(request: PageRequest): Promise<Response> {
    const from = performance.now()
    const response = await sendWithFailover(
      backends,
      (backend) => send(request, backend),
      () => false,
    )
      .catch((cause: unknown) => {
        throw cause instanceof Problem ? cause : pageProblem(cause)
      })
      .finally(() => {
        request.record.upstreamMs += performance.now() - from
      })
    const { statusCode: status = 0, headers, rawHeaders } = response
    const fields = rawHeaders.map((text, at) => (at % 2 === 0 ? text.toLowerCase() : text))
    if (status < 200 || status > 599 || !fields.every(isFieldValue)) {
      response.destroy()
      throw pageProblem(new Error('the response is malformed'))
    }
    const length = headers['content-length']
    const lengthField = length === undefined || status === 204 ? [] : ['content-length', length]
    return { status, headers: [...clientHeaders(fields), ...lengthField], body: response }
  }

  function send(
    { head, route, body, requestId, abort, record }: PageRequest,
    { url, address: backendAddress }: Backend,
  ): Promise<IncomingMessage> {
    record.backend = url
    const { address, trace } = record
    // http-proxy-3 drops a lone question mark, and the signature covers what is sent.
    const path = head.query === '?' ? head.path : head.path + head.query
    const passed = [...REQUEST_HEADERS, ...(route.headers ?? [])]
    // http-proxy-3 requires these types; they have no connection.
    const req = new IncomingMessage(new Socket())
    const res = new ServerResponse(req)
    req.method = head.method
    req.url = path
    req.headers = requestHeaders(head, body, passed, {
      host: new URL(backendAddress.origin).host,
      ...(trace === undefined ? {} : traceHeaders(trace, createSpanId())),
      'x-request-id': requestId,
      [CLIENT_ADDRESS_HEADER]: clientAddress(address, head.headers, trustedProxies),
      [SIGNATURE_HEADER]: signRequest(
        { method: head.method, path, body },
        Date.now(),
        gatewaySecrets,
      ),
    })
    return new Promise((resolve, reject) => {
      waiting.set(req, resolve)
      abort.listen({
        abort(reason) {
          // http-proxy-3 silently aborts its request on this event.
          res.emit('close')
          reject(reason)
        },
      })
      const target = targetOf(backendAddress)
      proxy.web(req, res, { target, buffer: Readable.from([body]) }, reject)
    })
  }

  function routeOf(path: string): PageRoute | undefined {
    return routes.find(({ prefix }) => path === prefix || path.startsWith(`${prefix}/`))
  }

  return { routeOf, forward }
}

/** The address itself, since `addresses.ts` resolves names; the certificate is checked against `Host`. */
function targetOf({ url, origin, socketPath }: BackendAddress) {
  if (socketPath === undefined) return url
  const { protocol, hostname } = new URL(origin)
  return { protocol, host: hostname, port: 80, socketPath }
}

function requestHeaders(
  head: RequestHead,
  body: Buffer,
  passed: readonly string[],
  added: Readonly<Record<string, string>>,
) {
  const headers: Record<string, string> = { ...added }
  for (const name of passed) {
    const value = head.headers.get(name)
    if (value !== undefined) headers[name] = value
  }
  if (body.length > 0 || head.method === 'POST' || head.method === 'PUT') {
    headers['content-length'] = String(body.length)
  }
  return headers
}

function pageProblem(cause: unknown): Problem {
  return isUnreachable(cause)
    ? new Problem(
        'service_unavailable',
        'This page is temporarily unavailable. Try again in a second.',
        {
          headers: { 'retry-after': '1' },
          cause,
        },
      )
    : new Problem('bad_gateway', 'The page could not be loaded. Try again.', { cause })
}
