/**
 * Control characters and halves of line ends are rejected before a head is complete, at any alignment in memory. A head
 * or the line before a chunk uses little memory even if it arrives slowly. A response may arrive in single bytes.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { CALL_BODY_LIMITS } from '../../gateway/downstream/request-body.ts'
import { createBodyDecoder } from '../../gateway/http1/body-decoder.ts'
import { RequestReader } from '../../gateway/http1/request-reader.ts'
import { ResponseReader } from '../../gateway/http1/response-reader.ts'
import { startListener } from './fixtures/listener.ts'

const BEGIN = 'GET / HTTP/1.1\r\nHost: a\r\nX-A: '
const TAIL = 'x'.repeat(20)
const OFFSETS = [0, 1, 2, 3]

/** Returns whether the reader rejects `bytes` if they begin at this offset of their memory. */
function isRejected(bytes: Buffer, offset: number): boolean {
  const memory = Buffer.alloc(offset + bytes.length + 1, '\x00')
  bytes.copy(memory, offset)
  const reader = new RequestReader()
  reader.push(memory.subarray(offset, offset + bytes.length))
  try {
    reader.readHead()
    return false
  } catch {
    return true
  }
}

t.test('a control character other than a tab is rejected at each of nine positions', async (t) => {
  for (let byte = 0; byte < 256; byte++) {
    const isControl = (byte < 32 && byte !== 9) || byte === 127
    for (const offset of OFFSETS) {
      for (let position = 0; position < 9; position++) {
        const bytes = Buffer.from(BEGIN + TAIL, 'latin1')
        bytes[BEGIN.length + position] = byte
        if (isRejected(bytes, offset) !== isControl)
          t.fail(`byte ${byte} at ${offset} + ${position}`)
      }
    }
  }
})

t.test('half of a line end is rejected, unless the next byte may complete it', async (t) => {
  const cases: readonly [string, boolean][] = [
    [`${BEGIN}${TAIL}\r`, false],
    [`${BEGIN}${TAIL}\r\n`, false],
    [`${BEGIN}${TAIL}\r\nX-B: b`, false],
    [`${BEGIN}${TAIL}\rX-B: b`, true],
    [`${BEGIN}${TAIL}\nX-B: b`, true],
    [`${BEGIN}${TAIL}\r\r\n`, true],
    ['\r', false],
    // Regression: a client that sent only this byte got no response until the deadline.
    ['\n', true],
  ]
  for (const offset of OFFSETS) {
    for (const [text, rejects] of cases) {
      t.equal(isRejected(Buffer.from(text), offset), rejects, JSON.stringify(text.slice(-10)))
    }
  }
})

t.test('the line before a chunk is rejected before its end if it is malformed', async (t) => {
  const cases: readonly [string, boolean][] = [
    ['2\r', false],
    ['2;a="x', false],
    ['2\n', true],
    ['2;a=b\n', true],
    ['2\r\n{}\r', false],
    ['2\r\n{}x', false],
    ['2\r\n{}xy', true],
    [`2;a="${'x'.repeat(16 * 1024 - 5)}`, false],
    [`2;a="${'x'.repeat(16 * 1024)}`, true],
    [`2\r\n{}\r\n0\r\nX-A: ${'x'.repeat(16 * 1024)}`, true],
  ]
  for (const [text, rejects] of cases) {
    const decoder = createBodyDecoder({ kind: 'chunked' })
    let isRejected = false
    try {
      decoder.decode(Buffer.from(text), () => {})
    } catch {
      isRejected = true
    }
    t.equal(isRejected, rejects, JSON.stringify(text.slice(0, 20)))
  }
})

t.test('a response can arrive byte by byte, in memory that is used again', async (t) => {
  const received: unknown[] = []
  const reader = new ResponseReader({
    onHead: (status, fields) => received.push(status, ...fields),
    onData: (part) => received.push(part.toString()),
    onEnd: (isReusable) => received.push(isReusable),
  })
  reader.expect('GET')
  const memory = Buffer.alloc(1)
  const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
  for (const byte of Buffer.from(`${head}00002;a=b\r\n{}\r\n0\r\nX-A: 1\r\n\r\n`)) {
    memory[0] = byte
    reader.read(memory)
    memory.fill('?')
  }
  t.strictSame(received, [200, 'transfer-encoding', 'chunked', '{', '}', true])
})

// Regression: each packet left a copy of the bytes before it as garbage: 50 clients that sent such heads made a
// gateway grow by 125 MB.
for (const { what, begin, end } of [
  { what: 'head', begin: BEGIN, end: '\r\n\r\n' },
  {
    what: 'line before a chunk',
    begin: 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a="',
    end: '"\r\nhello\r\n0\r\n\r\n',
  },
]) {
  t.test(`a long ${what} that arrives byte by byte leaves little garbage`, async (t) => {
    const port = await startListener(t, {
      async serve({ framing }, call) {
        if (framing !== undefined) await call.readBody(framing, CALL_BODY_LIMITS, false)
        return { status: 200, headers: [], body: Buffer.from('{}') }
      },
    })
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    socket.write(begin + 'x'.repeat(13_000))
    let bytesMax = 0
    const before = process.memoryUsage().arrayBuffers
    for (let byte = 0; byte < 2_000; byte++) {
      socket.write('x')
      await setImmediate()
      bytesMax = Math.max(bytesMax, process.memoryUsage().arrayBuffers - before)
    }
    socket.write(end)
    const [response]: Buffer[] = await once(socket, 'data')
    socket.destroy()
    t.ok(response?.toString().startsWith('HTTP/1.1 200'))
    t.ok(bytesMax < 4_000_000, `${bytesMax} bytes`)
  })
}
