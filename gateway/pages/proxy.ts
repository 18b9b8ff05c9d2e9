/**
 * Brings the browser to the backend's pages by http-proxy-3, whose handling of cookies and redirects
 * helps there. Its risks are shut out: the request was checked and its body read before, headers are
 * an allow-list set before it starts, and it never writes the answer itself (`selfHandleResponse`):
 * a bad status would crash it, an answer that breaks off would look whole.
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
import { MAIL_BYTES_MAX } from '../downstream/body.ts'
import { clientAddress } from '../downstream/client-address.ts'
import type { Reply } from '../downstream/response.ts'
import { isFieldValue } from '../http1/fields.ts'
import type { Head } from '../http1/request-head.ts'
import type { CallStory } from '../observability/call-record.ts'
import type { Abort } from '../pipeline/call.ts'
import { passedHeaders } from '../pipeline/translate.ts'
import type { BackendAddress } from '../upstream/addresses.ts'
import { type Backend, type Upstream, wasNeverConnected } from '../upstream/backends.ts'

/** What a page may be asked with. */
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

export interface Place {
  readonly prefix: string
  readonly methods: readonly string[]
  /** What is read of a body; `BODY_BYTES_MAX` unless told otherwise. */
  readonly bodyBytesMax?: number
  /** What goes to the backend from here alone. */
  readonly headers?: readonly string[]
}

const PAGES: readonly Place[] = [
  { prefix: '/settings', methods: ['GET', 'HEAD', 'POST', 'PUT'] },
  { prefix: '/docs', methods: ['GET', 'HEAD'], headers: ['accept-encoding'] },
]

/** Links in mails lead here, whatever else a gateway serves. */
const MAIL: readonly Place[] = [
  { prefix: '/mail/unsubscribe', methods: ['GET', 'HEAD', 'POST'] },
  {
    prefix: '/mail/inbound',
    methods: ['POST'],
    headers: ['authorization'],
    bodyBytesMax: MAIL_BYTES_MAX,
  },
]

export interface PagesProxy {
  /** Undefined where there is nothing. */
  placeAt(path: string): Place | undefined
  /** Throws `Problem` 502 or 503 where the page does not arrive. */
  forward(exchange: PageExchange): Promise<Reply>
}

export interface PageExchange {
  readonly head: Head
  readonly body: Buffer
  readonly requestId: string
  readonly story: CallStory
  readonly abort: Abort
}

export interface PagesProxyOptions {
  readonly upstream: Upstream
  readonly gatewaySecrets: readonly string[]
  readonly timeoutMs: number
  /** Else only what mails need. */
  readonly servesPages: boolean
  /** How many proxies in front of us add to `X-Forwarded-For`. */
  readonly trustedProxies: number
}

export function createPagesProxy(options: PagesProxyOptions): PagesProxy {
  const { upstream, gatewaySecrets, timeoutMs, trustedProxies, servesPages } = options
  const places = servesPages ? [...PAGES, ...MAIL] : MAIL
  const proxy = httpProxy.createProxyServer({
    selfHandleResponse: true,
    toProxy: true,
    xfwd: false,
    proxyTimeout: timeoutMs,
  })
  const waiting = new WeakMap<IncomingMessage, (answer: IncomingMessage) => void>()
  proxy.on('proxyRes', (answer, req) => waiting.get(req)?.(answer))

  async function forward(exchange: PageExchange): Promise<Reply> {
    const from = performance.now()
    const answer = await sendToOne(exchange).finally(() => {
      exchange.story.upstreamMs += performance.now() - from
    })
    const { statusCode: status = 0, headers, rawHeaders } = answer
    if (status < 200 || status > 599) {
      answer.destroy()
      throw new Problem('bad_gateway', 'The page did not arrive. Try again.')
    }
    const length = headers['content-length']
    const own = length === undefined || status === 204 ? [] : ['content-length', length]
    const fields = rawHeaders.map((text, at) => (at % 2 === 0 ? text.toLowerCase() : text))
    if (!fields.every(isFieldValue)) throw new Problem('bad_gateway', 'The page is garbled.')
    return { status, headers: [...passedHeaders(fields), ...own], body: answer }
  }

  /** A backend that refuses is passed over: nobody was asked yet. */
  async function sendToOne(exchange: PageExchange): Promise<IncomingMessage> {
    let backend = upstream.choose()
    for (let refusals = 1; ; refusals++) {
      try {
        return await send(exchange, backend)
      } catch (cause) {
        if (!wasNeverConnected(cause)) throw pageLost(cause)
        upstream.markUnreachable(backend)
        const next = upstream.choose(backend)
        if (next === backend || refusals >= upstream.size) throw pageLost(cause)
        backend = next
      }
    }
  }

  function send(
    { head, body, requestId, abort, story }: PageExchange,
    { url, address: place }: Backend,
  ): Promise<IncomingMessage> {
    story.backend = url
    const { address, trace } = story
    // http-proxy-3 drops a lone question mark, and the signature covers what is sent.
    const path = head.query === '?' ? head.path : head.path + head.query
    const passed = [...REQUEST_HEADERS, ...(placeAt(head.path)?.headers ?? [])]
    // What http-proxy-3 takes; no connection stands behind them.
    const req = new IncomingMessage(new Socket())
    const res = new ServerResponse(req)
    req.method = head.method
    req.url = path
    req.headers = requestHeaders(head, body, passed, {
      host: new URL(place.origin).host,
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
          // Upon which http-proxy-3 gives the request up, without a word.
          res.emit('close')
          reject(reason)
        },
      })
      const target = targetOf(place)
      proxy.web(req, res, { target, buffer: Readable.from([body]) }, reject)
    })
  }

  function placeAt(path: string): Place | undefined {
    return places.find(({ prefix }) => path === prefix || path.startsWith(`${prefix}/`))
  }

  return { placeAt, forward }
}

/** The address itself, so that names are asked in one place; certificates go by the `Host` sent. */
function targetOf({ url, origin, socketPath }: BackendAddress) {
  if (socketPath === undefined) return url
  const { protocol, hostname } = new URL(origin)
  return { protocol, host: hostname, port: 80, socketPath }
}

function requestHeaders(
  head: Head,
  body: Buffer,
  passed: readonly string[],
  own: Readonly<Record<string, string>>,
) {
  const headers: Record<string, string> = { ...own }
  for (const name of passed) {
    const value = head.headers.get(name)
    if (value !== undefined) headers[name] = value
  }
  if (body.length > 0 || head.method === 'POST' || head.method === 'PUT') {
    headers['content-length'] = String(body.length)
  }
  return headers
}

function pageLost(cause: unknown): Problem {
  return wasNeverConnected(cause)
    ? new Problem('service_unavailable', 'The pages are away. Try again in a second.', {
        headers: { 'retry-after': '1' },
        cause,
      })
    : new Problem('bad_gateway', 'The page did not arrive. Try again.', { cause })
}
