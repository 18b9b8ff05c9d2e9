/**
 * Control characters and halves of line ends are rejected before a head is complete, at any alignment in memory. A head
 * or the line before a chunk uses little memory even if it arrives slowly.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { CALL_BODY_LIMITS } from '../../gateway/downstream/request-body.ts'
import { RequestReader } from '../../gateway/http1/request-reader.ts'
import { startListener } from './fixtures/listener.ts'

const BEGIN = 'GET / HTTP/1.1\r\nHost: a\r\nX-A: '
const TAIL = 'x'.repeat(20)
const OFFSETS = [0, 1, 2, 3]

/** Whether the reader rejects `bytes` if they begin at this offset of their memory. */
function isRejected(bytes: Buffer, offset: number): boolean {
  const memory = Buffer.alloc(offset + bytes.length + 1, '\x00')
  bytes.copy(memory, offset)
  const reader = new RequestReader()
  reader.push(memory.subarray(offset, offset + bytes.length))
  try {
    return reader.readHead() !== undefined
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
  ]
  for (const offset of OFFSETS) {
    for (const [text, rejects] of cases) {
      t.equal(isRejected(Buffer.from(text), offset), rejects, JSON.stringify(text.slice(-10)))
    }
  }
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
