/** An unexpected error while a response is being written closes the connection; the call is recorded nevertheless. */
import { once } from 'node:events'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import type { ListenerOptions } from '../../gateway/downstream/listener.ts'
import { exchangeBytes } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { startListener } from './fixtures/listener.ts'

/** Starts a listener whose first response cannot be written. Returns what it records for each call. */
async function start(t: Test, serve: ListenerOptions['serve']) {
  const recorded: (readonly [status: number, code: string | undefined])[] = []
  let responses = 0
  const port = await startListener(t, {
    serve,
    rateLimitHeaders() {
      if (responses++ === 0) throw new Error('no headers')
      return []
    },
    onSettled: (call, status) => void recorded.push([status, call.record.code]),
  })
  const send = () => exchangeBytes(port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  return { recorded, send }
}

// Regression: such a call had no log line, metric or span.
t.test(
  'a call whose response cannot be written is recorded once, as an internal error',
  async (t) => {
    const { recorded, send } = await start(t, () => ({
      status: 200,
      headers: [],
      body: Buffer.from('{}'),
    }))
    t.equal((await send()).text, '')
    await until(() => recorded.length > 0, 'the call is recorded')
    t.strictSame(recorded, [[500, 'internal_error']])
    t.equal((await send()).text.split('\r\n', 1)[0], 'HTTP/1.1 200 OK')
    await until(() => recorded.length > 1, 'the next call is recorded')
    t.strictSame(recorded[1], [200, undefined])
  },
)

// Regression: the body was never read, and so never released its connection to the backend.
t.test('a streamed body of a response that cannot be written is closed', async (t) => {
  const body = new Readable({ read() {} })
  const closed = once(body, 'close')
  const { send } = await start(t, () => ({ status: 200, headers: [], body }))
  await send()
  await closed
  t.equal(body.destroyed, true)
})
