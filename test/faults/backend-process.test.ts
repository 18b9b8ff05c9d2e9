import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { failpointKey, failpointsEnv, hasFired } from '../fixtures/payments/failpoints.ts'
import { type Ledger, openLedger } from '../fixtures/payments/ledger.ts'
import { call, type Response } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

/** Ten times what is promised: 50 ms for a 503, 2 s for a start. */
const UNAVAILABLE_MS_MAX = 500
const READY_MS_MAX = 20_000

// Many processes are started, which takes minutes on a busy machine.
t.setTimeout(900_000)
t.jobs = 2

t.test(
  'after a backend is killed, calls get 503 immediately; they succeed once it runs again',
  async (t) => {
    const ledger = await openLedger(t)
    const { system } = ledger
    const payer = ledger.payer('payer')
    const invoiceId = await ledger.invoice(100_000)
    const intent = { key: 'a', reference: 'a', invoiceId, amount: 1_000 }
    const acknowledged = await payer.send(intent)
    await system.backend.stop('SIGKILL')
    const times: number[] = []
    for (let call = 0; call < 5; call++) {
      const startedAt = performance.now()
      const response = await payer.send({ ...intent, key: 'b', reference: 'b' })
      times.push(performance.now() - startedAt)
      matches(t, response, { status: 503, json: { code: 'service_unavailable' } })
      matches(t, response?.headers, { 'retry-after': /^[1-9]\d*$/, 'x-request-id': /^req_/ })
    }
    // The fastest call is asserted, because a busy machine delays some of them.
    const unavailableMs = Math.min(...times)
    t.ok(unavailableMs < UNAVAILABLE_MS_MAX)
    await untilDegradedIs(ledger, ['no backend is ready'])
    const started = performance.now()
    await system.startBackend()
    const readyMs = performance.now() - started
    t.ok(readyMs < READY_MS_MAX)
    t.comment({ unavailableMs: Math.round(unavailableMs), readyMs: Math.round(readyMs) })
    t.equal((await payer.pay(intent)).text, acknowledged?.text)
    await untilDegradedIs(ledger, [])
    t.strictSame((await ledger.check()).violations, [])
  },
)

t.test(
  'if a backend hangs, calls get 504 at the deadline, and the payment is recorded once',
  async (t) => {
    const ledger = await openLedger(t)
    const { backend, url } = ledger.system
    const payer = ledger.payer('payer')
    const invoiceId = await ledger.invoice(100_000)
    const intent = { key: 'a', reference: 'a', invoiceId, amount: 1_000 }
    await payer.send({ ...intent, key: 'before', reference: 'before' })
    backend.signal('SIGSTOP')
    const startedAt = performance.now()
    const [paid, read] = await Promise.all([
      payer.send(intent),
      call(`${url}/api/v1/invoices/${invoiceId}`, { key: ledger.apiKey }),
    ])
    const respondedMs = Math.round(performance.now() - startedAt)
    t.comment({ respondedMs })
    for (const response of [paid, read]) {
      matches(t, response, { status: 504, json: { code: 'gateway_timeout' } })
      matches(t, response?.headers, { 'x-request-id': /^req_/ })
    }
    t.ok(respondedMs >= 9_900 && respondedMs < 100_000)
    await untilDegradedIs(ledger, ['no backend is ready'])
    backend.signal('SIGCONT')
    t.equal((await payer.pay(intent)).status, 201)
    await untilDegradedIs(ledger, [])
    t.strictSame((await ledger.check()).violations, [])
  },
)

t.test(
  'a gateway that is started without a backend becomes ready once the backend runs',
  async (t) => {
    const { system, apiKey } = await openLedger(t)
    await system.backend.stop('SIGKILL')
    const gateway = await startGateway(t, `http://127.0.0.1:${system.backend.port}`)
    const readyz = `http://127.0.0.1:${gateway.operationsPort}/readyz`
    // On a slow machine, the first probe may end without a result.
    const isRefused = async () => (await call(readyz)).text.includes('ECONNREFUSED')
    await until(isRefused, 'a probe finds that the backend does not run')
    matches(t, await call(readyz), {
      status: 503,
      json: { reasons: ['no backend is ready', /ECONNREFUSED/] },
    })
    matches(t, await call(`${gateway.url}/api/v1/me`, { key: apiKey }), { status: 503 })
    await system.startBackend()
    await until(async () => (await call(readyz)).status === 200, 'the gateway is ready')
    matches(t, await call(`${gateway.url}/api/v1/me`, { key: apiKey }), { status: 200 })
  },
)

t.test(
  'a draining backend reports that it is not ready, and completes calls in progress',
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'failpoints-'))
    t.teardown(() => rmSync(directory, { recursive: true }))
    const ledger = await openLedger(t, { backendEnv: failpointsEnv(directory) })
    const { backend } = ledger.system
    const readyz = `http://127.0.0.1:${backend.operationsPort}/readyz`
    const key = failpointKey('stall', 'before_commit', 'drain')
    const intent = { key, reference: key, invoiceId: await ledger.invoice(1_000), amount: 400 }
    const paid = ledger.payer('payer').send(intent)
    await until(() => hasFired(directory, key), 'the payment is in progress')
    const ended = backend.stop('SIGTERM')
    const { json } = await until(async () => {
      const response = await call(readyz)
      return response.status === 503 && response
    }, 'the backend reports that it drains')
    matches(t, json, { ready: false, reasons: ['draining'] })
    t.equal((await paid)?.status, 201)
    t.equal(await ended, 0)
    t.strictSame((await ledger.check()).violations, [])
  },
)

t.test('while a backend restarts under load, calls get 201, or 503 with Retry-After', async (t) => {
  const ledger = await openLedger(t, { gateways: 2 })
  const { system } = ledger
  const invoiceId = await ledger.invoice(900_000_000)
  const responses: (Response | undefined)[] = []
  let isOver = false
  const keepPaying = async (name: string) => {
    const payer = ledger.payer(name)
    for (let n = 0; !isOver; n++) {
      const intent = { key: `${name}-${n}`, reference: `${name}-${n}`, invoiceId, amount: 1 }
      const response = await payer.send(intent)
      responses.push(response)
      // The payer retries, as the 503 requires.
      if (response?.status !== 201) responses.push(await payer.pay(intent))
    }
  }
  const payers = Array.from({ length: 8 }, (_, n) => keepPaying(`payer-${n}`))
  for (let restarts = 0; restarts < 3; restarts++) {
    const enough = responses.length + 50
    await until(() => responses.length >= enough, '50 more calls have responses')
    t.equal(await system.backend.stop('SIGTERM'), 0)
    await system.startBackend()
  }
  isOver = true
  await Promise.all(payers)
  for (const response of responses) {
    if (response?.status === 201) continue
    // A 502 would leave the outcome unknown. A backend that drains completes every call that it has accepted.
    matches(t, response, { status: 503, json: { code: 'service_unavailable' } })
    matches(t, response?.headers, { 'retry-after': /^[1-9]\d*$/ })
  }
  const counts = Object.groupBy(responses, (response) => String(response?.status))
  t.comment(Object.fromEntries(Object.entries(counts).map(([name, all]) => [name, all?.length])))
  t.strictSame((await ledger.check()).violations, [])
})

/**
 * Resolves when `/readyz` of the gateway reports exactly these reasons under `degraded`, apart from those of single
 * backends. Rejects if its status is not 200.
 */
async function untilDegradedIs({ system }: Ledger, reasons: readonly string[]): Promise<void> {
  const readyz = `http://127.0.0.1:${system.gateways[0]?.operationsPort}/readyz`
  await until(async () => {
    const { status, json } = await call(readyz)
    if (status !== 200) throw new Error(`the gateway is not ready: ${status}`)
    // The gateway also reports the reason of each backend that is not ready. These are not compared.
    const own = json.degraded.filter((reason: string) => !reason.startsWith('backend http'))
    return JSON.stringify(own) === JSON.stringify(reasons)
  }, `degraded: ${reasons}`)
}
