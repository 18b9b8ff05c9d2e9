/** Keys that are looked up anew behind the calls that use them, by a clock that the test moves. */
import t, { type Test } from 'tap'
import { Authenticator } from '../../gateway/keys/authenticator.ts'
import { watchBackendAddresses } from '../../gateway/upstream/addresses.ts'
import { BackendSet } from '../../gateway/upstream/backend-set.ts'
import { rejectsWith, throwsWith } from '../fixtures/matches.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { SILENT } from '../fixtures/service/database.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

/** When the first may be looked up anew, and when none is remembered any more. */
const REFRESHED_FROM_S = 30
const REMEMBERED_S = 45
/** Within it every key is due, whatever its own age for it. */
const LAST_MOMENT_S = REMEMBERED_S - 0.0001

// It stands still in between: however slow the machine is, no key grows older by itself.
let nowMs = performance.now()
performance.now = () => nowMs
const pass = (seconds: number) => {
  nowMs += seconds * 1000
}

async function startAuthenticator(t: Test) {
  const closing: (() => unknown)[] = []
  const backend = await startCapturingBackend({ teardown: (work) => closing.push(work) })
  const addresses = watchBackendAddresses({ urls: [backend.url], log: SILENT })
  const options = { addresses, gatewaySecrets: [GATEWAY_SECRET], timeoutMs: 2_000, log: SILENT }
  const backends = new BackendSet({ ...options, connections: 8 })
  const stopBackend = () => {
    for (const close of closing.splice(0)) close()
  }
  t.teardown(async () => {
    addresses.close()
    backends.close()
    stopBackend()
  })
  const authenticator = new Authenticator(backends)
  const call = (secret: string) => {
    const credential = authenticator.readCredential(`Bearer ${secret}`)
    return authenticator.findCached(credential) ?? authenticator.lookUp(credential, '127.0.0.1')
  }
  return { backend, authenticator, call, stopBackend }
}

/** That no look-up is under way. */
const settled = (authenticator: Authenticator) =>
  until(() => authenticator.counts().inFlight === 0, 'look-ups have ended')

t.test('a cached key in use is looked up again before it expires, and no call waits', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secret = backend.issue()
  await call(secret)
  for (let refreshes = 1; refreshes <= 3; refreshes++) {
    pass(REFRESHED_FROM_S)
    t.notOk(call(secret) instanceof Promise, 'remembered')
    t.equal(authenticator.counts().inFlight, 0, 'and young enough')
    pass(LAST_MOMENT_S - REFRESHED_FROM_S)
    t.notOk(call(secret) instanceof Promise, 'remembered')
    call(secret)
    await settled(authenticator)
    t.equal(backend.lookUps(), 1 + refreshes, 'looked up once, behind the calls')
  }
  pass(REMEMBERED_S)
  t.ok(call(secret) instanceof Promise, 'too old')
  await settled(authenticator)
})

t.test('keys that were looked up together are not refreshed together', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secrets = Array.from({ length: 200 }, () => backend.issue())
  await Promise.all(secrets.map(call))
  pass(REFRESHED_FROM_S)
  const steps: number[] = []
  for (let second = REFRESHED_FROM_S + 1; second < REMEMBERED_S; second++) {
    pass(1)
    const before = backend.lookUps()
    t.notOk(secrets.map(call).some((key) => key instanceof Promise))
    await settled(authenticator)
    steps.push(backend.lookUps() - before)
  }
  t.comment(`looked up in each second: ${steps}`)
  t.ok(
    steps.every((lookUps) => lookUps > 0),
    'some in each',
  )
  t.ok(backend.lookUps() > 1.7 * secrets.length, 'most of them')
})

t.test('keys that are due together are refreshed by one request for each fifty', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secrets = Array.from({ length: 120 }, () => backend.issue())
  await Promise.all(secrets.map(call))
  pass(LAST_MOMENT_S)
  const before = { keys: backend.lookUps(), requests: backend.lookUpRequests() }
  t.notOk(secrets.map(call).some((key) => key instanceof Promise))
  await settled(authenticator)
  t.equal(backend.lookUps() - before.keys, secrets.length)
  t.equal(backend.lookUpRequests() - before.requests, 3)
  pass(REFRESHED_FROM_S)
  t.notOk(
    secrets.map(call).some((key) => key instanceof Promise),
    'each is as new',
  )
})

t.test('the next call uses the result of a look-up in the background', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secret = backend.issue()
  await call(secret)
  backend.revoke(secret)
  pass(LAST_MOMENT_S)
  t.notOk(call(secret) instanceof Promise, 'remembered')
  await until(() => authenticator.counts().lookUps.revoked === 1, 'it is seen')
  throwsWith(t, () => call(secret), { code: 'revoked_api_key' })
})

t.test('a failed look-up fails no call, and is not repeated by every call', async (t) => {
  const { backend, authenticator, call, stopBackend } = await startAuthenticator(t)
  // Of so many some are due seconds before the last moment.
  const secrets = Array.from({ length: 50 }, () => backend.issue())
  await Promise.all(secrets.map(call))
  stopBackend()
  pass(REMEMBERED_S - 3)
  for (let second = 0; second < 2; second++) {
    const { failed } = authenticator.counts().lookUps
    t.notOk(
      secrets.map(call).some((key) => key instanceof Promise),
      'remembered',
    )
    await settled(authenticator)
    t.ok(authenticator.counts().lookUps.failed > failed, 'it failed')
    t.notOk(
      secrets.map(call).some((key) => key instanceof Promise),
      'still remembered',
    )
    t.equal(authenticator.counts().inFlight, 0, 'not asked again at once')
    pass(1)
  }
  pass(1)
  for (const secret of secrets) {
    await rejectsWith(t, async () => call(secret), { code: 'service_unavailable' })
  }
})
