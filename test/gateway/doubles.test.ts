/** The doubles of a backend say what the real one says: the gateway's tests rest on it. */
import t from 'tap'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { revokeApiKey } from '../../backend/api-keys/api-keys.ts'
import { digestApiKey, mintApiKey } from '../../shared/contract/api-key.ts'
import { PRINCIPAL_HEADER, REFUSAL_HEADER } from '../../shared/contract/principal.ts'
import { startBackend } from '../fixtures/service/backend.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
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

/** Each value as the name of its type; what decides a case stays as it is. */
function shapeOf({ status, json }: { readonly status: number; readonly json: object }) {
  const members = Object.entries(json).map(([name, value]) => {
    const isDecisive = name === 'found' || name === 'revoked'
    return [name, isDecisive ? value : Array.isArray(value) ? 'array' : typeof value]
  })
  return { status, members: Object.fromEntries(members.toSorted()) }
}

t.test('a live key', async (t) => {
  const expected = shapeOf(await lookUpReal((await real.createKey()).secret))
  t.equal(expected.members.found, true)
  t.strictSame(shapeOf(await lookUpDouble(capturing.url, capturing.issue())), expected)
  t.strictSame(shapeOf(await lookUpDouble(raw.url, mintApiKey().secret)), expected)
})

t.test('a revoked key', async (t) => {
  const { row, secret } = await real.createKey()
  const act = { actor: OPERATOR, now: real.now }
  await real.database.transaction((tx) => revokeApiKey(tx, row.id, act))
  const own = capturing.issue()
  capturing.revoke(own)
  t.strictSame(await lookUpDouble(capturing.url, own), await lookUpReal(secret))
})

t.test('an unknown key', async (t) => {
  const { secret } = mintApiKey()
  t.strictSame(await lookUpDouble(capturing.url, secret), await lookUpReal(secret))
})

t.test('readiness', async (t) => {
  const { status, text } = await real.request('GET', '/internal/ready')
  for (const { url } of [capturing, raw]) {
    const response = await fetch(`${url}/internal/ready`)
    t.strictSame([response.status, await response.text()], [status, text])
  }
})

t.test('the backend rejects with an empty 401 that names the reason', async (t) => {
  const response = await real.send('GET', '/api/v1/me', { headers: { [PRINCIPAL_HEADER]: 'x' } })
  const { status, text, headers } = response
  t.strictSame([status, text, headers.get(REFUSAL_HEADER)], [401, '', 'principal_invalid'])
})
