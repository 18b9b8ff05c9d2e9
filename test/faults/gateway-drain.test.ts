/**
 * Gateways and backends restart under load. No call that a gateway accepted fails, and while a backend restarts, calls
 * get only the promised responses.
 */
import t, { type Test } from 'tap'
import { Agent } from 'undici'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'
import { RAW_OK, startRawBackend } from '../gateway/fixtures/raw-backend.ts'

const RESTARTS = Number(process.env['RESTARTS'] ?? 4)
const CALLERS = 20
const key = mintApiKey().secret

interface Load {
  /** The number of calls by status. `refused` counts failed connections, and `broken` counts lost responses. */
  readonly seen: ReadonlyMap<string, number>
  stop(): Promise<void>
}

/**
 * Starts callers that make one call after the other. Each keeps its connection open for as long as the gateway does.
 */
function startLoad(t: Test, url: () => string, write = false): Load {
  const dispatcher = new Agent({ connections: CALLERS, pipelining: 1 })
  t.teardown(() => dispatcher.destroy())
  const seen = new Map<string, number>()
  let isOver = false
  const options = write ? { key, body: {}, dispatcher } : { key, dispatcher }
  const callers = Array.from({ length: CALLERS }, async () => {
    while (!isOver) {
      const outcome = await call(url(), options).then(({ status }) => String(status), nameOf)
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
      if (outcome !== '200') await new Promise((resolve) => setTimeout(resolve, 5))
    }
  })
  return {
    seen,
    async stop() {
      isOver = true
      await Promise.all(callers)
    },
  }
}

/**
 * Names the outcome of a call without a response. `refused` is expected during a drain: when the listener closes, the
 * kernel resets connections that it has not accepted.
 */
const nameOf = (error: { syscall?: string }) => (error.syscall === 'connect' ? 'refused' : 'broken')
const shown = ({ seen }: Load) => JSON.stringify(Object.fromEntries(seen))

t.test('a gateway that drains under load fails no call that it accepted', async (t) => {
  const backend = await startRawBackend(t)
  backend.setBehavior((socket) => setTimeout(() => socket.write(RAW_OK), 10))
  let gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'error' })
  let next = gateway
  const load = startLoad(t, () => `${gateway.url}/api/v1/debtors`)
  for (let restart = 0; restart < RESTARTS; restart++) {
    next = await startGateway(t, backend.url, { LOG_LEVEL: 'error' })
    const calls = backend.calls.length
    await until(() => backend.calls.length > calls + 3 * CALLERS, 'the load runs')
    const old = gateway
    // New calls go to the new gateway, while the old one completes calls in progress.
    const drained = old.stop()
    gateway = next
    t.equal(await drained, 0)
    t.equal(old.log(), '')
  }
  await load.stop()
  t.comment(`${RESTARTS} restarts: ${shown(load)}`)
  t.notOk(load.seen.has('broken'))
  t.strictSame(
    [...load.seen.keys()].sort(),
    load.seen.has('refused') ? ['200', 'refused'] : ['200'],
  )
})

t.test('while a backend restarts under load, calls get only 200, 502 or 503', async (t) => {
  let backend = await startRawBackend(t)
  const port = Number(new URL(backend.url).port)
  const gateway = await startGateway(t, backend.url, { LOG_LEVEL: 'fatal' })
  const url = () => `${gateway.url}/api/v1/debtors`
  const [reads, writes] = [startLoad(t, url), startLoad(t, url, true)]
  for (let restart = 0; restart < RESTARTS; restart++) {
    const calls = backend.calls.length
    await until(() => backend.calls.length > calls + 3 * CALLERS, 'the load runs')
    backend.stop()
    backend = await startRawBackend(t, port)
  }
  await until(async () => (await call(url(), { key })).status === 200, 'calls succeed again')
  await Promise.all([reads.stop(), writes.stop()])
  t.comment(`reads ${shown(reads)}, writes without an idempotency key ${shown(writes)}`)
  for (const { seen } of [reads, writes]) {
    for (const outcome of seen.keys()) t.ok(['200', '502', '503'].includes(outcome), outcome)
  }
})
