/** Cached keys are refreshed in the background while calls use them. The test moves the clock. */
import t, { type Test } from 'tap'
import { Authenticator } from '../../gateway/keys/authenticator.ts'
import { watchBackendAddresses } from '../../gateway/upstream/addresses.ts'
import { BackendSet } from '../../gateway/upstream/backend-set.ts'
import { digestApiKey } from '../../shared/contract/api-key.ts'
import { rejectsWith, throwsWith } from '../fixtures/matches.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { SILENT } from '../fixtures/service/database.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

/** Each key becomes due for a refresh at its own age between these two. At the second age, it is no longer cached. */
const REFRESHED_FROM_S = 30
const CACHED_S = 45
/** At this age every key is due for a refresh, and still cached. */
const LAST_MOMENT_S = CACHED_S - 0.0001

// Only the test advances the clock, so that no key grows older on a slow machine.
let nowMs = performance.now()
performance.now = () => nowMs
const advanceClock = (seconds: number) => {
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

/** Resolves when no look-up is in progress. */
const untilSettled = (authenticator: Authenticator) =>
  until(() => authenticator.counts().inFlight === 0, 'look-ups have ended')

t.test(
  'a cached key in use is looked up again before its cache entry expires, and no call waits',
  async (t) => {
    const { backend, authenticator, call } = await startAuthenticator(t)
    const secret = backend.issue()
    await call(secret)
    for (let refreshes = 1; refreshes <= 3; refreshes++) {
      advanceClock(REFRESHED_FROM_S)
      t.notOk(call(secret) instanceof Promise, 'the key is cached')
      t.equal(authenticator.counts().inFlight, 0, 'the key is too young for a refresh')
      advanceClock(LAST_MOMENT_S - REFRESHED_FROM_S)
      t.notOk(call(secret) instanceof Promise, 'the key is cached')
      call(secret)
      await untilSettled(authenticator)
      t.equal(backend.lookUps(), 1 + refreshes, 'the key was looked up once, in the background')
    }
    advanceClock(CACHED_S)
    t.ok(call(secret) instanceof Promise, 'the key is no longer cached')
    await untilSettled(authenticator)
  },
)

t.test('keys that were looked up at the same time are refreshed at different times', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secrets = Array.from({ length: 200 }, () => backend.issue())
  await Promise.all(secrets.map(call))
  advanceClock(REFRESHED_FROM_S)
  const steps: number[] = []
  for (let second = REFRESHED_FROM_S + 1; second < CACHED_S; second++) {
    advanceClock(1)
    const before = backend.lookUps()
    t.notOk(secrets.map(call).some((key) => key instanceof Promise))
    await untilSettled(authenticator)
    steps.push(backend.lookUps() - before)
  }
  t.comment(`looked up in each second: ${steps}`)
  t.ok(
    steps.every((lookUps) => lookUps > 0),
    'some keys are looked up in each second',
  )
  t.ok(backend.lookUps() > 1.7 * secrets.length, 'most keys were refreshed')
})

t.test(
  'keys that are due at the same time are refreshed by requests for at most fifty keys each',
  async (t) => {
    const { backend, authenticator, call } = await startAuthenticator(t)
    const secrets = Array.from({ length: 120 }, () => backend.issue())
    await Promise.all(secrets.map(call))
    advanceClock(LAST_MOMENT_S)
    const before = { keys: backend.lookUps(), requests: backend.lookUpRequests() }
    t.notOk(secrets.map(call).some((key) => key instanceof Promise))
    await untilSettled(authenticator)
    t.equal(backend.lookUps() - before.keys, secrets.length)
    t.equal(backend.lookUpRequests() - before.requests, 3)
    advanceClock(REFRESHED_FROM_S)
    t.notOk(
      secrets.map(call).some((key) => key instanceof Promise),
      'every key was refreshed',
    )
  },
)

// Regression: each key was looked up by a request of its own. Rejecting calls beyond their limits therefore cost the
// backend three times as much as serving them.
t.test(
  'keys that are looked up for calls at the same time share requests for at most fifty keys each',
  async (t) => {
    const { backend, authenticator, call } = await startAuthenticator(t)
    const secrets = Array.from({ length: 120 }, () => backend.issue())
    await Promise.all(secrets.map(call))
    const requestsOf = async (lookUp: (secret: string) => unknown) => {
      const before = { keys: backend.lookUps(), requests: backend.lookUpRequests() }
      advanceClock(CACHED_S)
      await Promise.all(secrets.map(lookUp))
      t.equal(backend.lookUps() - before.keys, secrets.length)
      return backend.lookUpRequests() - before.requests
    }
    const confirm = (secret: string) =>
      authenticator.confirm(digestApiKey(secret), performance.now())
    t.equal(await requestsOf(confirm), 3)
    t.equal(await requestsOf(call), 3)
  },
)

t.test('the next call uses the result of a background look-up', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secret = backend.issue()
  await call(secret)
  backend.revoke(secret)
  advanceClock(LAST_MOMENT_S)
  t.notOk(call(secret) instanceof Promise, 'the key is cached')
  await until(() => authenticator.counts().lookUps.revoked === 1, 'the revocation is found')
  throwsWith(t, () => call(secret), { code: 'revoked_api_key' })
})

t.test('a call is confirmed by a look-up that began after the call arrived', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secret = backend.issue()
  await call(secret)
  advanceClock(CACHED_S)
  backend.delayLookUps(100)
  const earlier = call(secret)
  await until(() => backend.lookUps() === 2, 'the backend has looked the key up')
  backend.revoke(secret)
  advanceClock(1)
  const confirmed = authenticator.confirm(digestApiKey(secret), performance.now())
  await rejectsWith(t, confirmed, { code: 'revoked_api_key' })
  await earlier
})

t.test('a key that a backend has reported as expired is rejected without a look-up', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secret = backend.issue()
  await call(secret)
  const expired = { code: 'expired_api_key' }
  throwsWith(t, () => authenticator.rejectExpired(digestApiKey(secret)), expired)
  throwsWith(t, () => call(secret), expired)
  t.equal(backend.lookUps(), 1)
})

t.test(
  'a failed background look-up fails no call, and is not repeated by every call',
  async (t) => {
    const { backend, authenticator, call, stopBackend } = await startAuthenticator(t)
    // Of 50 keys, some are already due for a refresh three seconds before their cache entries expire.
    const secrets = Array.from({ length: 50 }, () => backend.issue())
    await Promise.all(secrets.map(call))
    stopBackend()
    advanceClock(CACHED_S - 3)
    for (let second = 0; second < 2; second++) {
      const { failed } = authenticator.counts().lookUps
      t.notOk(
        secrets.map(call).some((key) => key instanceof Promise),
        'the keys are cached',
      )
      await untilSettled(authenticator)
      t.ok(authenticator.counts().lookUps.failed > failed, 'a look-up failed')
      t.notOk(
        secrets.map(call).some((key) => key instanceof Promise),
        'the keys are still cached',
      )
      t.equal(authenticator.counts().inFlight, 0, 'no look-up is repeated immediately')
      advanceClock(1)
    }
    advanceClock(1)
    for (const secret of secrets) {
      await rejectsWith(t, async () => call(secret), { code: 'service_unavailable' })
    }
  },
)

t.test('the age of a result begins with its look-up, not with the response', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secret = backend.issue()
  const lookUp = call(secret)
  advanceClock(1)
  const arrivedAt = performance.now()
  await lookUp
  backend.revoke(secret)
  const confirmed = authenticator.confirm(digestApiKey(secret), arrivedAt)
  await rejectsWith(t, confirmed, { code: 'revoked_api_key' })
})

t.test('at most eight requests refresh keys at the same time', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secrets = Array.from({ length: 450 }, () => backend.issue())
  await Promise.all(secrets.map(call))
  advanceClock(LAST_MOMENT_S)
  for (const [keys, requests] of [
    [400, 8],
    [50, 1],
  ]) {
    const before = { keys: backend.lookUps(), requests: backend.lookUpRequests() }
    t.notOk(
      secrets.map(call).some((key) => key instanceof Promise),
      'every key is cached',
    )
    await untilSettled(authenticator)
    t.equal(backend.lookUps() - before.keys, keys)
    t.equal(backend.lookUpRequests() - before.requests, requests)
  }
})

t.test('a key is not refreshed while it is being looked up for a call', async (t) => {
  const { backend, authenticator, call } = await startAuthenticator(t)
  const secret = backend.issue()
  await call(secret)
  advanceClock(LAST_MOMENT_S)
  backend.delayLookUps(100)
  t.notOk(call(secret) instanceof Promise, 'the key is cached, and due for a refresh')
  await authenticator.confirm(digestApiKey(secret), performance.now())
  await untilSettled(authenticator)
  t.equal(backend.lookUps(), 2)
})

t.test(
  'after a look-up has failed, a call that arrived meanwhile is confirmed by another',
  async (t) => {
    const { backend, authenticator, call } = await startAuthenticator(t)
    const secret = backend.issue()
    await call(secret)
    advanceClock(CACHED_S)
    backend.delayLookUps(100)
    backend.setRateLimit(secret, 0.5)
    const failed = rejectsWith(t, async () => call(secret), { code: 'service_unavailable' })
    await until(() => backend.lookUps() === 2, 'the backend has sent a malformed result')
    backend.setRateLimit(secret, 600)
    advanceClock(1)
    const { rateLimit } = await authenticator.confirm(digestApiKey(secret), performance.now())
    t.equal(rateLimit, 600)
    await failed
  },
)
