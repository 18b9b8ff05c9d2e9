/**
 * A client sends random sequences of requests on one connection, split at random positions. It reads fast or slowly,
 * and may disconnect early. Up to the first request that closes the connection, the accepted requests reach the
 * backend with unchanged bodies, no others do, and the responses arrive in order. If the client resets the connection,
 * only the requests that reach the backend are checked. `SEED` selects other sequences, `PROPERTY_RUNS` their number.
 */
import { connect } from 'node:net'
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { fc } from '../fixtures/properties.ts'
import {
  type CapturedRequest,
  startCapturingBackend,
} from '../fixtures/service/capturing-backend.ts'
import { EXCHANGE_MS_MAX, startGateway } from '../fixtures/service/gateway.ts'
import { parseResponses } from './fixtures/responses.ts'

const numRuns = Number(process.env['PROPERTY_RUNS'] ?? 200)
const BODY_BYTES_MAX = 256 * 1024
/** More than the gateway buffers for a client that does not read, and more than it sends in one write. */
const LARGE_RESPONSE_BYTES = 700_000

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'error', BACKEND_CONNECTIONS: '4' })
const key = backend.issue(undefined, 10_000_000)

// The response contains the target of its request; the query determines its delay and its size.
backend.respondWith(async ({ url }, res) => {
  const requested = new URL(url, 'http://a').searchParams
  await delay(Number(requested.get('ms')))
  const text = `"${url}"`
  const size = Number(requested.get('size'))
  if (size === 0) return void res.writeHead(200, { 'content-length': text.length }).end(text)
  res.write(text)
  res.end(' '.repeat(size))
})

interface Expected {
  readonly status: number
  readonly closes?: boolean
  readonly sendsContinue?: boolean
  readonly isHead?: boolean
  /** The request that reaches the backend. */
  readonly upstream?: { readonly method: string; readonly body: string }
}

interface Item extends Expected {
  /** Returns the bytes of the request. `target` is a path with a query that no other request has. */
  bytes(target: string): string
}

const AUTH = `Authorization: Bearer ${key}\r\n`
const HOST = 'Host: api.test\r\n'

/** Headers that do not change how the gateway handles a request, although some resemble headers that do. */
const noise = fc
  .array(
    fc.constantFrom(
      'X-A: b\r\n',
      'X-A:\r\n',
      'X-Text: \xc3\xa9\xff\t"\r\n',
      'X-Receivables-Principal: forged\r\n',
      'Transfer_Encoding: chunked\r\n',
      'Content_Length: 5\r\n',
      'Connection: keep-alive\r\n',
      'Connection: content-length, transfer-encoding, authorization, host\r\n',
      'Keep-Alive: timeout=1\r\n',
      'TE: trailers, chunked\r\n',
      'Trailer: Content-Length\r\n',
      'Accept: */*\r\n',
      `X-Long: ${'x'.repeat(4000)}\r\n`,
    ),
    { maxLength: 3 },
  )
  .map((lines) => lines.join(''))

/** The lengths of bodies. The bodies consist of texts that parsers look for. */
const bodyLength = fc.oneof(
  { arbitrary: fc.nat({ max: 60 }), weight: 6 },
  { arbitrary: fc.nat({ max: 70_000 }), weight: 2 },
  { arbitrary: fc.constantFrom(BODY_BYTES_MAX - 1, BODY_BYTES_MAX), weight: 1 },
)
const PIECES = ['\r\n\r\n', 'GET / HTTP/1.1\r\n', '0\r\n\r\n', '\0\xff', '{"a":1}', '5\r\n', '\n']
const body = fc
  .tuple(bodyLength, fc.shuffledSubarray(PIECES, { minLength: 1 }))
  .map(([length, pieces]) =>
    pieces
      .join('')
      .repeat(1 + length / 2)
      .slice(0, length),
  )

const valid = (method: string, text: string): Expected => ({
  status: 200,
  isHead: method === 'HEAD',
  upstream: { method, body: text },
})

const read: fc.Arbitrary<Item> = fc
  .tuple(fc.constantFrom('GET', 'GET', 'HEAD'), noise, fc.constantFrom('', '\r\n', '\r\n\r\n'))
  .map(([method, fields, before]) => ({
    ...valid(method, ''),
    bytes: (target) => `${before}${method} ${target} HTTP/1.1\r\n${HOST}${AUTH}${fields}\r\n`,
  }))

const write: fc.Arbitrary<Item> = fc
  .tuple(body, noise, fc.boolean())
  .map(([text, fields, expects]) => ({
    ...valid('POST', text),
    sendsContinue: expects && text !== '',
    closes: expects && text === '',
    bytes: (target) =>
      `POST ${target} HTTP/1.1\r\n${HOST}${fields}Content-Length: ${text.length}\r\n${
        expects ? 'Expect: 100-continue\r\n' : ''
      }${AUTH}\r\n${text}`,
  }))

const EXTENSIONS = ['', '', ';a', ';a=b', ';a="b;\\"c"']
const TRAILERS = ['', '', 'X-T: 1\r\n', 'Host: b\r\nAuthorization: c\r\n']

const chunkedWrite: fc.Arbitrary<Item> = fc
  .record({
    text: body,
    fields: noise,
    size: fc.constantFrom(1, 3, 16, 1000, 65_536, 1_000_000),
    zeros: fc.constantFrom('', '0', '0000'),
    extension: fc.constantFrom(...EXTENSIONS),
    trailer: fc.constantFrom(...TRAILERS),
  })
  .map(({ text, fields, size, zeros, extension, trailer }) => {
    // At most 2,000 chunks.
    const step = Math.max(size, Math.ceil(text.length / 2000))
    let chunks = ''
    for (let offset = 0; offset < text.length; offset += step) {
      const chunk = text.slice(offset, offset + step)
      chunks += `${zeros}${chunk.length.toString(16)}${extension}\r\n${chunk}\r\n`
    }
    return {
      ...valid('POST', text),
      bytes: (target) =>
        `POST ${target} HTTP/1.1\r\n${HOST}${AUTH}${fields}Transfer-Encoding: chunked\r\n\r\n${chunks}0${extension}\r\n${trailer}\r\n`,
    }
  })

const post = (fields: string, rest: string) => (target: string) =>
  `POST ${target} HTTP/1.1\r\n${HOST}${AUTH}${fields}\r\n${rest}`
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const rejection = (status: number, bytes: Item['bytes']): Item => ({ status, closes: true, bytes })

/** Requests that the gateway does not forward. */
const notForwarded = fc.constantFrom<Item[]>(
  { status: 404, bytes: () => `GET /api/v1/nowhere HTTP/1.1\r\n${HOST}${AUTH}\r\n` },
  { status: 401, bytes: (target) => `GET ${target} HTTP/1.1\r\n${HOST}\r\n` },
  {
    status: 204,
    bytes: (target) => `OPTIONS ${target} HTTP/1.1\r\n${HOST}${AUTH}\r\n`,
  },
  rejection(400, post('Content-Length: 2\r\nContent-Length: 2\r\n', '{}')),
  rejection(400, post(`Content-Length: 5\r\n${CHUNKED}`, '0\r\n\r\n')),
  rejection(400, post('Transfer-Encoding: chunked, chunked\r\n', '0\r\n\r\n')),
  rejection(400, post('Transfer-Encoding : chunked\r\n', '0\r\n\r\n')),
  rejection(400, post('Transfer-Encoding:\tchunked\r\n', '0\r\n\r\n')),
  rejection(400, post('Transfer-Encoding: x\r\n chunked\r\n', '0\r\n\r\n')),
  rejection(400, post(CHUNKED, '2\r\n{}x\r\n0\r\n\r\n')),
  rejection(400, post(CHUNKED, '2\n{}\r\n0\r\n\r\n')),
  rejection(400, post(CHUNKED, '0x2\r\n{}\r\n0\r\n\r\n')),
  rejection(400, post(CHUNKED, '2 \r\n{}\r\n0\r\n\r\n')),
  rejection(400, post(CHUNKED, '2;a=\n\r\n{}\r\n0\r\n\r\n')),
  rejection(400, post(CHUNKED, '1000000000002\r\n{}\r\n0\r\n\r\n')),
  rejection(400, post(CHUNKED, '2\r\n{}\r\n0\r\nContent-Length: 1\r\n\r\n')),
  rejection(400, post('Content-Length: +2\r\n', '{}')),
  rejection(400, post('Content-Length: 2,2\r\n', '{}')),
  rejection(400, post('X: a\rb\r\nContent-Length: 2\r\n', '{}')),
  rejection(400, post('X: a\nContent-Length: 2\r\n', '{}')),
  rejection(400, post('X: a\0\r\nContent-Length: 2\r\n', '{}')),
  rejection(400, post('Upgrade: websocket\r\nContent-Length: 2\r\n', '{}')),
  rejection(400, (target) => `GET http://api.test${target} HTTP/1.1\r\n${HOST}${AUTH}\r\n`),
  rejection(400, (target) => `GET  ${target} HTTP/1.1\r\n${HOST}${AUTH}\r\n`),
  rejection(400, (target) => `GET ${target} HTTP/1.1\n${HOST}${AUTH}\r\n`),
  rejection(400, (target) => `GET ${target} HTTP/1.1\r\n${AUTH}\r\n`),
  rejection(400, () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  rejection(400, () => '\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n'),
  rejection(405, (target) => `TRACE ${target} HTTP/1.1\r\n${HOST}${AUTH}\r\n`),
  rejection(413, post(`Content-Length: ${BODY_BYTES_MAX + 1}\r\n`, 'x'.repeat(BODY_BYTES_MAX + 1))),
  rejection(413, post(CHUNKED, `fffffff\r\n${'x'.repeat(BODY_BYTES_MAX + 1)}`)),
  rejection(414, (target) => `GET ${target}&${'x'.repeat(9_000)} HTTP/1.1\r\n${HOST}${AUTH}\r\n`),
  rejection(431, (target) => `GET ${target} HTTP/1.1\r\n${HOST}${'A: b\r\n'.repeat(101)}\r\n`),
)

/** Valid requests that close their connection. */
const closing: fc.Arbitrary<Item> = fc
  .tuple(fc.constantFrom('HTTP/1.1', 'HTTP/1.0'), fc.constantFrom('GET', 'POST'), noise, body)
  .map(([version, method, fields, text]) => ({
    ...valid(method, method === 'POST' ? text : ''),
    closes: true,
    bytes: (target) => {
      const keeps = version === 'HTTP/1.1' || fields.includes('keep-alive')
      const length = method === 'POST' ? `Content-Length: ${text.length}\r\n` : ''
      const lines = `${HOST}${AUTH}${fields}${keeps ? 'Connection: close\r\n' : ''}${length}`
      return `${method} ${target} ${version}\r\n${lines}\r\n${method === 'POST' ? text : ''}`
    },
  }))

/** How the connection ends: after its last request, in the middle of it, or by a reset at any point. */
type Ending = 'last request' | 'truncated' | 'reset'

const sequence = fc.record({
  items: fc.array(
    fc.oneof(
      { arbitrary: read, weight: 4 },
      { arbitrary: write, weight: 3 },
      { arbitrary: chunkedWrite, weight: 3 },
      { arbitrary: notForwarded, weight: 2 },
    ),
    { maxLength: 6 },
  ),
  last: closing,
  ending: fc.constantFrom<Ending[]>('last request', 'last request', 'truncated', 'reset'),
  /** The positions of cuts, as fractions of the length. */
  cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 }),
  isByteByByte: fc.boolean(),
  /** The number of turns of the event loop between two packets. */
  gap: fc.nat({ max: 3 }),
  /** The number of turns before the client reads. */
  readsAfter: fc.constantFrom(0, 0, 0, 20),
  responseMs: fc.constantFrom(0, 0, 0, 3, 15),
  size: fc.constantFrom(0, 0, 0, 10, LARGE_RESPONSE_BYTES),
})

type Sequence = typeof sequence extends fc.Arbitrary<infer S> ? S : never

let connections = 0

t.test(
  'only accepted requests are forwarded, with unchanged bodies, and responses arrive in order',
  async (t) => {
    await fc.assert(
      fc.asyncProperty(sequence, async (drawn) => {
        const connection = ++connections
        const requestsBefore = backend.requests.length
        const all = [...drawn.items, drawn.last]
        const targets = all.map(
          (_, n) =>
            `/api/v1/debtors?c=${connection}&n=${n}&ms=${drawn.responseMs}&size=${drawn.size}`,
        )
        const parts = all.map((item, n) => item.bytes(targets[n] ?? ''))
        const text = await exchange(parts, drawn)
        // A call of an earlier client that has disconnected may arrive only now.
        const prefix = `/api/v1/debtors?c=${connection}&`
        const upstream = backend.requests
          .slice(requestsBefore)
          .filter(({ url }) => url.startsWith(prefix))
        const expected = upToClosing(all)
        compareUpstream(expected, targets, upstream, drawn.ending)
        if (drawn.ending !== 'reset') compareResponses(expected, targets, text, drawn)
      }),
      // A failed sequence is not shrunk, because each attempt that hangs would take `EXCHANGE_MS_MAX`.
      { numRuns, endOnFailure: true },
    )
    t.notMatch(gateway.log(), /"level":"(?:error|fatal)"|uncaught/)
  },
)

/** Returns the requests up to the first that closes the connection. */
function upToClosing(items: readonly Item[]): readonly Item[] {
  const last = items.findIndex(({ closes }) => closes === true)
  return last < 0 ? items : items.slice(0, last + 1)
}

function isTruncated(expected: readonly Item[], { ending, items }: Sequence): boolean {
  return ending === 'truncated' && expected.length > items.length
}

function compareUpstream(
  expected: readonly Item[],
  targets: readonly string[],
  upstream: readonly CapturedRequest[],
  ending: Ending,
): void {
  const expectedRequests = expected.flatMap((item, n) =>
    item.upstream === undefined ? [] : [{ ...item.upstream, url: targets[n] }],
  )
  for (const [n, { method, url, body, headers }] of upstream.entries()) {
    const expectedRequest = expectedRequests[n]
    if (expectedRequest?.url !== url || expectedRequest?.method !== method)
      throw new Error(`unexpected upstream request ${method} ${url}`)
    if (expectedRequest?.body !== body) throw new Error(`a different body upstream for ${url}`)
    if (headers['x-receivables-principal'] === 'forged') throw new Error('a forged principal')
  }
  const missing = expectedRequests.length - upstream.length
  if (ending === 'last request' && missing !== 0)
    throw new Error(`${missing} requests did not reach the backend`)
  if (ending === 'truncated' && missing > 1)
    throw new Error(`${missing} requests did not reach the backend`)
}

function compareResponses(
  expected: readonly Item[],
  targets: readonly string[],
  text: string,
  drawn: Sequence,
): void {
  const truncated = isTruncated(expected, drawn)
  const heads = expected.map(({ isHead }) => isHead === true)
  const responses = parseResponses(text, truncated ? heads.slice(0, -1) : heads)
  const statuses = responses.map(({ status }) => status)
  const expectedStatuses = expected.flatMap((item, n) => {
    if (truncated && n === expected.length - 1) return [400]
    return item.sendsContinue ? [100, item.status] : [item.status]
  })
  if (String(statuses) !== String(expectedStatuses))
    throw new Error(`statuses ${statuses} instead of ${expectedStatuses}`)
  const final = responses.filter(({ status }) => status >= 200)
  for (const [n, { status, body, headers }] of final.entries()) {
    if (status === 200 && !heads[n] && !body.startsWith(`"${targets[n]}"`)) {
      throw new Error(`the response to another request: ${body.slice(0, 100)}`)
    }
    const closes = headers.get('connection') === 'close'
    if (closes !== (n === final.length - 1))
      throw new Error(`response ${n} ${closes ? 'has' : 'lacks'} Connection: close`)
  }
}

/** Resolves with the bytes received until the gateway closed the connection or the client reset it. */
function exchange(parts: readonly string[], drawn: Sequence): Promise<string> {
  const { ending, readsAfter } = drawn
  const whole = parts.join('')
  const last = parts.at(-1)?.length ?? 0
  const truncatedLength = whole.length - 1 - Math.floor((last - 2) * fraction(drawn))
  const bytes = ending === 'truncated' ? whole.slice(0, truncatedLength) : whole
  const pieces = cut(bytes, drawn)
  const resetsAt =
    ending === 'reset' ? Math.floor(fraction(drawn) * (pieces.length + 1)) : undefined
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const settle = () => {
      resolve(Buffer.concat(chunks).toString('latin1'))
      socket.destroy()
    }
    const socket = connect({ port: gateway.port, host: '127.0.0.1', noDelay: true }, async () => {
      for (const [n, piece] of pieces.entries()) {
        if (socket.destroyed) return
        if (n === resetsAt) break
        socket.write(piece, 'latin1')
        for (let gap = 0; gap < drawn.gap; gap++) await turn()
      }
      if (ending === 'reset') {
        socket.resetAndDestroy()
        settle()
      } else if (ending === 'truncated') {
        socket.end()
      }
      for (let n = 0; n < readsAfter; n++) await turn()
      socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    })
    socket.setTimeout(EXCHANGE_MS_MAX, () => {
      reject(
        new Error(`no more bytes after ${Buffer.concat(chunks).toString('latin1').slice(-500)}`),
      )
      socket.destroy()
    })
    socket.on('end', settle)
    socket.on('error', settle)
  })
}

function fraction({ cuts }: Sequence): number {
  return cuts[0] ?? 0.5
}

function cut(bytes: string, { cuts, isByteByByte }: Sequence): string[] {
  if (isByteByByte && bytes.length < 1500) return [...bytes]
  const offsets = [0, ...cuts.map((share) => Math.floor(share * bytes.length)), bytes.length]
  offsets.sort((a, b) => a - b)
  return offsets
    .slice(1)
    .map((to, n) => bytes.slice(offsets[n], to))
    .filter((piece) => piece !== '')
}
