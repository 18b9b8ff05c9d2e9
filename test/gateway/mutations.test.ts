/**
 * Sends valid requests with random changes. Each changed request is either rejected, or forwarded once with the method,
 * target and body that its bytes have. `SEED` selects other changes, `PROPERTY_RUNS` the number of requests.
 */
import t from 'tap'
import { fc } from '../fixtures/properties.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { exchangeBytes, startGateway } from '../fixtures/service/gateway.ts'
import { parseResponses } from './fixtures/responses.ts'

const numRuns = Number(process.env['PROPERTY_RUNS'] ?? 600)

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'error' })
const key = backend.issue(undefined, 1_000_000)

const HEADERS = `Host: api.test\r\nAuthorization: Bearer ${key}\r\n`
const POST = `POST /api/v1/debtors HTTP/1.1\r\n${HEADERS}Content-Type: application/json\r\n`
const BODY = '{"name":"Acme"}'
const GOOD = [
  `GET /api/v1/debtors?limit=1 HTTP/1.1\r\n${HEADERS}Accept: application/json\r\n\r\n`,
  `${POST}Content-Length: ${BODY.length}\r\n\r\n${BODY}`,
  `${POST}Transfer-Encoding: chunked\r\n\r\n7\r\n${BODY.slice(0, 7)}\r\n8;a=b\r\n${BODY.slice(7)}\r\n0\r\n\r\n`,
]

/** Texts that parsers have interpreted in different ways. */
const TOKENS = [
  '\r',
  '\n',
  '\r\n',
  '\r\n\r\n',
  '\0',
  ' ',
  '\t',
  '\x0b',
  ':',
  ';',
  ',',
  '%',
  '%2e',
  '%2f',
  '..',
  '/',
  '//',
  '\\',
  '#',
  '?',
  '*',
  '0',
  '-',
  '+',
  '_',
  '"',
  '\x7f',
  '\xff',
  'GET ',
  'HTTP/1.0',
  'HTTP/1.1',
  'Content-Length: 0\r\n',
  'Content-Length: 3\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding : chunked\r\n',
  'Connection: close\r\n',
  'Host: b\r\n',
  ' folded\r\n',
  'Expect: 100-continue\r\n',
  'Upgrade: h2c\r\n',
  '0\r\n\r\n',
  'ffffffffffffffff',
  'GET / HTTP/1.1\r\n\r\n',
]

type Change = (bytes: string) => string

/**
 * A position, as a fraction of the length. fast-check favors small numbers, so the multiplication spreads them.
 */
const position = fc.nat({ max: 9_999 }).map((number) => ((number * 7_919) % 10_000) / 10_000)
const offsetIn = (bytes: string, share: number) => Math.floor(share * bytes.length)

/** Inserts a text, replaces a byte, removes bytes, copies a line, or changes the case of a letter. */
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.tuple(position, fc.constantFrom(...TOKENS)).map(
    ([share, token]): Change =>
      (bytes) => {
        return bytes.slice(0, offsetIn(bytes, share)) + token + bytes.slice(offsetIn(bytes, share))
      },
  ),
  fc.tuple(position, fc.integer({ min: 0, max: 255 })).map(
    ([share, code]): Change =>
      (bytes) => {
        const index = offsetIn(bytes, share)
        return bytes.slice(0, index) + String.fromCharCode(code) + bytes.slice(index + 1)
      },
  ),
  fc.tuple(position, fc.integer({ min: 1, max: 12 })).map(
    ([share, length]): Change =>
      (bytes) => {
        return bytes.slice(0, offsetIn(bytes, share)) + bytes.slice(offsetIn(bytes, share) + length)
      },
  ),
  fc.tuple(position, position).map(
    ([from, to]): Change =>
      (bytes) => {
        const lines = bytes.split('\r\n')
        lines.splice(
          offsetIn(bytes, to) % lines.length,
          0,
          lines[offsetIn(bytes, from) % lines.length] ?? '',
        )
        return lines.join('\r\n')
      },
  ),
  position.map(
    (share): Change =>
      (bytes) => {
        const index = offsetIn(bytes, share)
        const letter = bytes.charAt(index)
        const other = letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase()
        return bytes.slice(0, index) + other + bytes.slice(index + 1)
      },
  ),
)

/** A valid request after one to three changes. */
const mutated = fc
  .tuple(fc.constantFrom(...GOOD), fc.array(change, { minLength: 1, maxLength: 3 }))
  .map(([good, changes]) => changes.reduce((bytes, apply) => apply(bytes), good))

t.test('each mutated request is rejected, or forwarded exactly once', async (t) => {
  let forwarded = 0
  await fc.assert(
    fc.asyncProperty(mutated, async (bytes) => {
      const requestsBefore = backend.requests.length
      const { text, closed } = await exchangeBytes(gateway.port, bytes, { halfClose: true })
      if (!closed) throw new Error('the connection is still open')
      const responses = parseResponses(text).filter(({ status }) => status >= 200)
      const upstream = backend.requests.slice(requestsBefore)
      forwarded += upstream.length
      if (responses.some(({ status }) => status >= 500)) throw new Error('a 5xx of the gateway')
      if (responses.length === 0 && bytes.trim() !== '') throw new Error('no response')
      const ok = responses.filter(({ status }) => status === 200)
      if (ok.length !== upstream.length)
        throw new Error('responses and upstream requests differ in number')
      for (const { method, url, body } of upstream) {
        if (!bytes.includes(`${method} ${url} HTTP/1.`)) throw new Error('a different request line')
        if (!bytes.includes(body) && !isChunked(bytes, body)) throw new Error('a different body')
      }
    }),
    { numRuns },
  )
  t.ok(forwarded > 0 && forwarded < numRuns, `${forwarded} of ${numRuns} were forwarded`)
})

/** Whether the bytes contain this body in well-formed chunks. */
function isChunked(bytes: string, body: string): boolean {
  const [, ...parts] = bytes.split('\r\n\r\n')
  let rest = parts.join('\r\n\r\n')
  let found = ''
  for (;;) {
    const [line = '', size = ''] = /^([0-9a-fA-F]+)[^\r\n]*\r\n/.exec(rest) ?? []
    const length = Number.parseInt(size, 16)
    if (!(length > 0)) return found === body
    found += rest.slice(line.length, line.length + length)
    rest = rest.slice(line.length + length + 2)
  }
}
