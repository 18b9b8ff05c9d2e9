import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { exchangeBytes, startGateway } from '../fixtures/service/gateway.ts'

const backend = await startCapturingBackend(t)
const gateway = await startGateway(t, backend.url)
const key = backend.issue(undefined, 100_000)

const AUTH = `Authorization: Bearer ${key}\r\n`
const HEADERS = `Host: api.test\r\n${AUTH}`
const get = (target: string) => `GET ${target} HTTP/1.1\r\n${HEADERS}\r\n`
const post = (headers: string, body: string) =>
  `POST /api/v1/debtors HTTP/1.1\r\n${HEADERS}${headers}\r\n${body}`

/** Each name counts one byte more for its colon, and each value one byte more for its line end. */
function getWithHeaderBytes(bytes: number): string {
  const headers = `${HEADERS}Connection: close\r\nX-A: `
  const others = headers.replaceAll(': ', ':').replaceAll('\r\n', '\n').length + 1
  return `GET /api/v1/me HTTP/1.1\r\n${headers}${'x'.repeat(bytes - others)}\r\n\r\n`
}

const REJECTED: [what: string, bytes: string, status: number][] = [
  ['a coding that is not chunked', post('Transfer-Encoding: gzip\r\n', ''), 400],
  ['chunked in capitals', post('Transfer-Encoding: CHUNKED\r\n', '0\r\n\r\n'), 400],
  ['a list of codings', post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'), 400],
  [
    'two codings',
    post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
    400,
  ],
  [
    'a coding and a length',
    post('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', '0\r\n\r\n'),
    400,
  ],
  [
    'a coding in HTTP/1.0',
    `POST /api/v1/debtors HTTP/1.0\r\n${HEADERS}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    400,
  ],
  ['a length with a leading zero', post('Content-Length: 02\r\n', '{}'), 400],
  ['a length with a sign', post('Content-Length: +2\r\n', '{}'), 400],
  ['a huge length', post('Content-Length: 99999999999999999999\r\n', '{}'), 400],
  ['two lengths', post('Content-Length: 2\r\nContent-Length: 2\r\n', '{}'), 400],
  ['a broken chunk size', post('Transfer-Encoding: chunked\r\n', 'zz\r\n{}\r\n0\r\n\r\n'), 400],
  [
    'a chunk size of 13 digits',
    post('Transfer-Encoding: chunked\r\n', '0000000000002\r\n{}\r\n0\r\n\r\n'),
    400,
  ],
  [
    '17 KiB of short trailers',
    post(
      'Transfer-Encoding: chunked\r\n',
      `2\r\n{}\r\n0\r\n${`X-A: ${'x'.repeat(95)}\r\n`.repeat(174)}\r\n`,
    ),
    431,
  ],
  ['a body on GET', `GET /api/v1/debtors HTTP/1.1\r\n${HEADERS}Content-Length: 2\r\n\r\n{}`, 400],
  ['a body on DELETE', `DELETE /api/v1/me HTTP/1.1\r\n${HEADERS}Content-Length: 2\r\n\r\n{}`, 400],
  ['no Host', `GET /api/v1/me HTTP/1.1\r\n${AUTH}\r\n`, 400],
  ['two Hosts', `GET /api/v1/me HTTP/1.1\r\n${HEADERS}Host: api.test\r\n\r\n`, 400],
  ['an empty Host', `GET /api/v1/me HTTP/1.1\r\nHost: \r\n${AUTH}\r\n`, 400],
  ['an odd Host', `GET /api/v1/me HTTP/1.1\r\nHost: a b\r\n${AUTH}\r\n`, 400],
  ['an absolute target', get('http://api.test/api/v1/me'), 400],
  ['an absolute target that breaks parsers', get('http://['), 400],
  ['an asterisk', `OPTIONS * HTTP/1.1\r\n${HEADERS}\r\n`, 400],
  ['a fragment', get('/api/v1/me#x'), 400],
  ['dot segments', get('/api/v1/../v1/me'), 400],
  ['encoded dot segments', get('/api/v1/%2e%2e/v1/me'), 400],
  ['an empty segment', get('/api//v1/me'), 400],
  ['a backslash', get('/api\\v1/me'), 400],
  ['an encoded slash', get('/api/v1%2fme'), 400],
  ['an encoded letter', get('/api/v1/%6de'), 400],
  ['an encoded NUL', get('/api/v1/debtors/%00'), 400],
  ['a path parameter', get('/api/v1/me;x=1'), 400],
  ['overlong UTF-8', get('/api/v1/debtors/%c0%ae'), 400],
  ['a broken encoding', get('/api/v1/debtors/%zz'), 400],
  ['a broken encoding in the query', get('/api/v1/debtors?q=%f'), 400],
  ['a NUL in the query', get('/api/v1/debtors?q=%00'), 400],
  ['HTTP/2.0', `GET /api/v1/me HTTP/2.0\r\n${HEADERS}\r\n`, 400],
  ['HTTP/0.9', 'GET /api/v1/me\r\n\r\n', 400],
  ['TRACE', `TRACE /api/v1/me HTTP/1.1\r\n${HEADERS}\r\n`, 405],
  ['CONNECT', `CONNECT api.test:443 HTTP/1.1\r\n${HEADERS}\r\n`, 405],
  ['a method that Node knows', `PROPFIND /api/v1/me HTTP/1.1\r\n${HEADERS}\r\n`, 405],
  ['an unknown method', `BREW /api/v1/me HTTP/1.1\r\n${HEADERS}\r\n`, 405],
  ['bytes that are not HTTP', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n', 400],
  [
    'two Idempotency-Keys',
    post('Idempotency-Key: a\r\nIdempotency-Key: a\r\nContent-Length: 2\r\n', '{}'),
    400,
  ],
  [
    'two Content-Types',
    post(
      'Content-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n',
      '{}',
    ),
    400,
  ],
  ['two Authorizations', `GET /api/v1/me HTTP/1.1\r\n${HEADERS}${AUTH}\r\n`, 401],
  [
    'an upgrade',
    `GET /api/v1/me HTTP/1.1\r\n${HEADERS}Upgrade: websocket\r\nConnection: upgrade\r\n\r\n`,
    400,
  ],
  ['an unknown expectation', post('Expect: magic\r\nContent-Length: 2\r\n', '{}'), 400],
  ['a long target', get(`/api/v1/debtors?q=${'x'.repeat(8200)}`), 414],
  ['a very long target', get(`/api/v1/debtors?q=${'x'.repeat(60_000)}`), 414],
  ['101 headers', `GET /api/v1/me HTTP/1.1\r\n${HEADERS}${'X-A: 1\r\n'.repeat(99)}\r\n`, 431],
  [
    '17 KiB of headers',
    `GET /api/v1/me HTTP/1.1\r\n${HEADERS}X-A: ${'x'.repeat(17_000)}\r\n\r\n`,
    431,
  ],
  ['one byte of headers too many', getWithHeaderBytes(16 * 1024 + 1), 431],
  [
    '60 KiB of headers',
    `GET /api/v1/me HTTP/1.1\r\n${HEADERS}X-A: ${'x'.repeat(60_000)}\r\n\r\n`,
    431,
  ],
]

const SMUGGLED = get('/api/v1/debtors?smuggled=1')

for (const [what, bytes, status] of REJECTED) {
  t.test(
    `a request with ${what} gets ${status}, and no request after it is processed`,
    async (t) => {
      const requestsBefore = backend.requests.length
      const { text, closed } = await exchangeBytes(gateway.port, bytes + SMUGGLED)
      matches(t, text, new RegExp(`^HTTP/1\\.1 ${status} `))
      matches(t, text, /\r\nx-ratelimit-remaining: 0\r\n/i)
      matches(t, text, /\r\nx-request-id: req_/i)
      matches(t, text, /"code":"[a-z_]+"/)
      t.equal(text.match(/HTTP\/1\.1 \d/g)?.length, 1, 'one response')
      t.ok(closed)
      t.equal(backend.requests.length, requestsBefore, 'nothing is sent to the backend')
    },
  )
}

// Regression: the response to an unknown method always allowed GET, HEAD, POST and OPTIONS.
for (const [path, allow] of [
  ['/api/v1/me', 'GET, HEAD'],
  ['/api/v1/debtors?limit=1', 'GET, HEAD, POST'],
  ['/settings/account', 'GET, HEAD, POST, PUT'],
  ['/mail/inbound', 'POST'],
  ['/', 'GET, HEAD'],
  ['/nothing', ''],
  ['*', ''],
]) {
  t.test(
    `the response to an unknown method for ${path} lists the methods of the path`,
    async (t) => {
      const { text } = await exchangeBytes(gateway.port, `BREW ${path} HTTP/1.1\r\n${HEADERS}\r\n`)
      matches(t, text, /^HTTP\/1\.1 405 /)
      t.equal(/\r\nallow: ?([^\r]*)\r\n/.exec(text)?.[1], allow)
    },
  )
}

t.test('16 KiB of headers are accepted', async (t) => {
  const { text } = await exchangeBytes(gateway.port, getWithHeaderBytes(16 * 1024))
  matches(t, text, /^HTTP\/1\.1 200 /)
})

t.test('a call with two request ids gets another id', async (t) => {
  const ids = 'X-Request-Id: first\r\nX-Request-Id: second\r\nConnection: close\r\n'
  const { text } = await exchangeBytes(
    gateway.port,
    `GET /api/v1/me HTTP/1.1\r\n${HEADERS}${ids}\r\n`,
  )
  const [, id = ''] = /\r\nx-request-id: (req_\w+)\r\n/.exec(text) ?? []
  matches(t, backend.requests.at(-1)?.headers, { 'x-request-id': id })
  matches(t, id, /^req_/)
})

t.test('only the allowed headers of a valid request are forwarded', async (t) => {
  const headers = [
    'X-Forwarded-For: 1.2.3.4',
    'Forwarded: for=1.2.3.4',
    'X-Receivables-Principal: forged',
    'X_Request_Id: x',
    'Range: bytes=0-1',
    'X-HTTP-Method-Override: DELETE',
    'Content-Type: application/json',
    'Idempotency-Key: abc',
    'X-Request-Id: my-own.id_1',
    'Content-Length: 2',
  ]
  const { text } = await exchangeBytes(
    gateway.port,
    post(`Connection: close\r\n${headers.join('\r\n')}\r\n`, '{}'),
  )
  matches(t, text, /^HTTP\/1\.1 200 /)
  matches(t, text, /\r\nx-request-id: my-own\.id_1\r\n/)
  const sent = backend.requests.at(-1)
  matches(t, sent, { method: 'POST', url: '/api/v1/debtors', body: '{}' })
  matches(t, sent?.headers, {
    'content-type': 'application/json',
    'idempotency-key': 'abc',
    'x-request-id': 'my-own.id_1',
    'x-receivables-principal': /^principal-of-key_/,
  })
  const names = Object.keys(sent?.headers ?? {})
  for (const name of ['x-forwarded-for', 'forwarded', 'x_request_id', 'range', 'authorization']) {
    t.notOk(names.includes(name), `${name} is not forwarded`)
  }
})

t.test(
  'header names are case-insensitive, and spaces and tabs around values are ignored',
  async (t) => {
    const heads = [
      `HOST:api.test\r\naUTHORIZATIOn:\t Bearer ${key} \t\r\nX-REQUEST-id:any-case`,
      `host: api.test\r\nauthorization:Bearer ${key}\r\nx-request-ID: any-case\t`,
    ]
    for (const head of heads) {
      const fields =
        'iDEMPOTENCY-kEY: \t abc \r\nCONTENT-LENGTH:2\r\nuser-AGENT:\r\nConnectioN: CLOSE\r\n'
      const request = `POST /api/v1/debtors HTTP/1.1\r\n${head}\r\n${fields}\r\n{}`
      const { text } = await exchangeBytes(gateway.port, request)
      matches(t, text, /^HTTP\/1\.1 200 /)
      matches(t, text, /\r\nx-request-id: any-case\r\n/)
      const { headers, body } = backend.requests.at(-1) ?? {}
      matches(t, headers, { 'idempotency-key': 'abc', 'content-length': '2', 'user-agent': '' })
      t.equal(body, '{}')
    }
  },
)

t.test('a header name that differs in one byte is another name', async (t) => {
  const names = [
    'content-length',
    'transfer-encoding',
    'idempotency-key',
    'host',
    'expect',
    'upgrade',
  ]
  for (const name of names) {
    for (let position = 0; position < name.length; position++) {
      const others = ['^', '~', '0', name[position] === 'q' ? 'z' : 'q']
      const fields = others.map(
        (other) => `${name.slice(0, position)}${other}${name.slice(position + 1)}: x\r\n`,
      )
      const twice = `${fields.join('')}${fields.join('')}Content-Length: 2\r\nConnection: close\r\n`
      const { text } = await exchangeBytes(gateway.port, post(twice, '{}'))
      matches(t, text, /^HTTP\/1\.1 200 /, `${name} with byte ${position} changed`)
      t.equal(backend.requests.at(-1)?.headers['idempotency-key'], undefined)
    }
  }
})

t.test('pipelined requests get their responses in order, each once', async (t) => {
  const requestsBefore = backend.requests.length
  const close = `GET /api/v1/debtors?c HTTP/1.1\r\n${HEADERS}Connection: close\r\n\r\n`
  const { text } = await exchangeBytes(
    gateway.port,
    get('/api/v1/debtors?a') + get('/api/v1/nowhere') + close,
  )
  t.strictSame(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200'])
  t.strictSame(
    backend.requests.slice(requestsBefore).map(({ url }) => url),
    ['/api/v1/debtors?a', '/api/v1/debtors?c'],
  )
})

t.test(
  'malformed bytes after pipelined requests are rejected after the responses to those requests',
  async (t) => {
    const { text, closed } = await exchangeBytes(
      gateway.port,
      `${get('/api/v1/debtors')}garbage\r\n\r\n`,
    )
    t.strictSame(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 400'])
    t.ok(closed)
  },
)

// Regression: malformed packets of 16 to 32 KB ended the process, because their memory is part of Node's
// pool.
t.test('malformed bytes are rejected in packets of 1 to 70 KB', async (t) => {
  for (let bytes = 1_000; bytes < 70_000; bytes += 3_000) {
    const malformed = `GET  /api/v1/debtors HTTP/1.1\r\n${HEADERS}\r\n${'x'.repeat(bytes)}`
    const { text } = await exchangeBytes(gateway.port, malformed, { halfClose: true })
    t.strictSame(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 400'], `${bytes} bytes`)
  }
})

t.test('a client that waits for 100 Continue gets it once its key is well-formed', async (t) => {
  const expecting = 'Expect: 100-continue\r\nConnection: close\r\nContent-Length: 2\r\n'
  const { text } = await exchangeBytes(gateway.port, post(expecting, '{}'))
  matches(t, text, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /)
  const unauthorized = await exchangeBytes(
    gateway.port,
    `POST /api/v1/debtors HTTP/1.1\r\nHost: a\r\n${expecting}\r\n`,
  )
  matches(t, unauthorized.text, /^HTTP\/1\.1 401 /, 'without a key, 401 is sent instead')
})

t.test(
  'the upgrade to h2c that Java clients offer is ignored, with and without a body',
  async (t) => {
    const upgrade =
      'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n'
    for (const offer of [upgrade, upgrade.replace('h2c', 'H2C')]) {
      const { text } = await exchangeBytes(
        gateway.port,
        `GET /api/v1/debtors HTTP/1.1\r\n${HEADERS}${offer}\r\n`,
      )
      matches(t, text, /^HTTP\/1\.1 200 /)
    }
    const posted = await exchangeBytes(
      gateway.port,
      post(`${upgrade}Content-Type: application/json\r\nContent-Length: 2\r\n`, '{}'),
    )
    matches(t, posted.text, /^HTTP\/1\.1 200 /)
  },
)

t.test(
  'a body over 256 KiB gets 413, and the response shows the rate limit of the key',
  async (t) => {
    const body = 'x'.repeat(256 * 1024 + 1)
    const { text, closed } = await exchangeBytes(
      gateway.port,
      post(`Content-Length: ${body.length}\r\n`, body),
    )
    matches(t, text, /^HTTP\/1\.1 413 /)
    matches(t, text, /"max_bytes":262144/)
    matches(t, text, /\r\nx-ratelimit-limit: 100000\r\n/)
    t.ok(closed)
    const chunked = `${'40000\r\n'}${'x'.repeat(0x40000)}\r\n1\r\nx\r\n0\r\n\r\n`
    const second = await exchangeBytes(
      gateway.port,
      post('Transfer-Encoding: chunked\r\n', chunked),
    )
    matches(t, second.text, /^HTTP\/1\.1 413 /)
  },
)

t.test('a call whose body is incomplete reaches no backend', async (t) => {
  const requestsBefore = backend.requests.length
  const { text } = await exchangeBytes(gateway.port, post('Content-Length: 10\r\n', '{}'), {
    timeoutMs: 300,
  })
  t.equal(text, '')
  t.equal(backend.requests.length, requestsBefore)
})
