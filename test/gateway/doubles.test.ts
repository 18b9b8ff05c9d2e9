/** The gateway's tests use two test doubles of the backend, which must respond as the real backend does. */
import t from 'tap'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { revokeApiKey } from '../../backend/api-keys/api-keys.ts'
import { digestApiKey, mintApiKey } from '../../shared/contract/api-key.ts'
import { PRINCIPAL_HEADER, PRINCIPAL_REJECTION_HEADER } from '../../shared/contract/principal.ts'
import { startBackend } from '../fixtures/service/backend.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { until } from '../fixtures/service/until.ts'
import { startRawBackend } from './fixtures/raw-backend.ts'

const LOOK_UP = '/internal/api-keys/look-up'

const real = await startBackend(t)
const capturing = await startCapturingBackend(t)
const raw = await startRawBackend(t)

const lookUpReal = async (secret: string) => {
  const { status, json } = await real.request('POST', LOOK_UP, {
    body: { digest: digestApiKey(secret) },
  })
  return { status, json }
}

async function lookUpDouble(url: string, secret: string) {
  const body = JSON.stringify({ digest: digestApiKey(secret) })
  const response = await fetch(url + LOOK_UP, { method: 'POST', body })
  return { status: response.status, json: await response.json() }
}

/** Replaces each value by the name of its type, except the values that distinguish the cases. */
function shapeOf({ status, json }: { readonly status: number; readonly json: object }) {
  const members = Object.entries(json).map(([name, value]) => {
    const isKept = name === 'found' || name === 'revoked'
    return [name, isKept ? value : Array.isArray(value) ? 'array' : typeof value]
  })
  return { status, members: Object.fromEntries(members.toSorted()) }
}

t.test('the doubles respond to a look-up of a valid key like the backend', async (t) => {
  const expected = shapeOf(await lookUpReal((await real.createKey()).secret))
  t.equal(expected.members.found, true)
  t.strictSame(shapeOf(await lookUpDouble(capturing.url, capturing.issue())), expected)
  t.strictSame(shapeOf(await lookUpDouble(raw.url, mintApiKey().secret)), expected)
})

t.test('a double responds to a look-up of a revoked key like the backend', async (t) => {
  const { row, secret } = await real.createKey()
  const actionContext = { actor: OPERATOR, now: real.now }
  await real.database.transaction((tx) => revokeApiKey(tx, row.id, actionContext))
  const revoked = capturing.issue()
  capturing.revoke(revoked)
  t.strictSame(await lookUpDouble(capturing.url, revoked), await lookUpReal(secret))
})

t.test('a double responds to a look-up of an unknown key like the backend', async (t) => {
  const { secret } = mintApiKey()
  t.strictSame(await lookUpDouble(capturing.url, secret), await lookUpReal(secret))
})

t.test('the doubles respond to a readiness probe like the backend', async (t) => {
  // On a busy machine, the database may respond too late to the first probe.
  const { status, text } = await until(async () => {
    const response = await real.request('GET', '/internal/ready')
    return response.status === 200 && response
  }, 'the backend is ready')
  for (const { url } of [capturing, raw]) {
    const response = await fetch(`${url}/internal/ready`)
    t.strictSame([response.status, await response.text()], [status, text])
  }
})

t.test(
  'the backend rejects an invalid principal with an empty 401 and a header that names the reason',
  async (t) => {
    const response = await real.send('GET', '/api/v1/me', { headers: { [PRINCIPAL_HEADER]: 'x' } })
    const { status, text, headers } = response
    t.strictSame(
      [status, text, headers.get(PRINCIPAL_REJECTION_HEADER)],
      [401, '', 'principal_invalid'],
    )
  },
)
