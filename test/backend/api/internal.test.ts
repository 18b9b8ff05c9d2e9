import { once } from 'node:events'
import { request } from 'node:http'
import { json } from 'node:stream/consumers'
import t from 'tap'
import { setScopeAllowance } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { listApiKeys, revokeApiKey } from '../../../backend/api-keys/api-keys.ts'
import { digestApiKey } from '../../../shared/contract/api-key.ts'
import {
  SIGNATURE_HEADER,
  signRequest,
  verifyPrincipal,
} from '../../../shared/contract/principal.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { GATEWAY_SECRETS, startBackend, type TestBackend } from '../../fixtures/service/backend.ts'

const LOOK_UP = '/internal/api-keys/look-up'

const lookUp = (backend: TestBackend, secret: string) =>
  backend.request('POST', LOOK_UP, { body: { digest: digestApiKey(secret) } })

t.test('a look-up returns the principal of a valid key, and records its use', async (t) => {
  const backend = await startBackend(t)
  const account = await backend.createAccount()
  const key = await backend.issueKey(account.id, {
    scopes: ['payments:read', 'debtors:read'],
    rateLimit: 7,
  })
  await backend.database.transaction((tx) =>
    setScopeAllowance(tx, account.id, ['payments:read'], { actor: OPERATOR, now: backend.now }),
  )
  const { status, headers, json } = await lookUp(backend, key.secret)
  t.equal(status, 200)
  t.equal(headers.get('cache-control'), 'no-store')
  const { principal, ...rest } = json
  t.strictSame(rest, {
    found: true,
    revoked: false,
    expired: false,
    key_id: key.row.id,
    account_id: account.id,
    scopes: ['payments:read'],
    granted_scopes: ['debtors:read', 'payments:read'],
    rate_limit: 7,
    allowed_addresses: null,
    key_revision: 1,
    account_revision: 2,
    expires_at: backend.now.getTime() + 60_000,
  })
  t.strictSame(verifyPrincipal(String(principal), GATEWAY_SECRETS), {
    principal: {
      keyId: key.row.id,
      keyRevision: 1,
      accountId: account.id,
      accountRevision: 2,
    },
    expiresAt: backend.now.getTime() + 60_000,
    secret: GATEWAY_SECRETS[0],
  })
  await backend.flushLastUsed()
  matches(t, await listApiKeys(backend.database.read, account.id), [
    { last_used_at: backend.now.toISOString() },
  ])
})

t.test('a look-up that begins after a revocation reports that the key is revoked', async (t) => {
  const backend = await startBackend(t)
  const key = await backend.createKey()
  matches(t, await lookUp(backend, key.secret), { json: { revoked: false } })
  await backend.database.transaction((tx) =>
    revokeApiKey(tx, key.row.id, { actor: OPERATOR, now: backend.now }),
  )
  t.strictSame((await lookUp(backend, key.secret)).json, { found: true, revoked: true })
  t.strictSame((await lookUp(backend, `${key.secret}x`)).json, { found: false })
})

t.test('one request looks up several keys, with results in the order of the request', async (t) => {
  const backend = await startBackend(t)
  const valid = await backend.createKey()
  const revoked = await backend.createKey()
  await backend.database.transaction((tx) =>
    revokeApiKey(tx, revoked.row.id, { actor: OPERATOR, now: backend.now }),
  )
  const digests = [revoked.secret, 'unknown', valid.secret, valid.secret].map(digestApiKey)
  const { status, json } = await backend.request('POST', LOOK_UP, { body: { digests } })
  const single = (await lookUp(backend, valid.secret)).json
  t.strictSame(
    [status, json],
    [200, { results: [{ found: true, revoked: true }, { found: false }, single, single] }],
  )
})

t.test('a look-up with an invalid body is rejected', async (t) => {
  const backend = await startBackend(t)
  const digest = digestApiKey('x')
  const invalidLists = [
    { digest, digests: [digest] },
    { digests: [] },
    { digests: [digest, 'short'] },
    { digests: Array.from({ length: 51 }, () => digest) },
  ]
  for (const body of [
    '',
    'x',
    '[]',
    {},
    { digest: 'short' },
    { digest, more: 1 },
    { digest: 1 },
    ...invalidLists,
  ]) {
    const response = await backend.request('POST', LOOK_UP, { body })
    matches(t, response, { status: 400, json: { code: 'bad_request' } }, JSON.stringify(body))
  }
})

t.test('a signature is valid for one method, path and body, and for one minute', async (t) => {
  const backend = await startBackend(t)
  const body = JSON.stringify({ digest: digestApiKey('x') })
  const signed = { method: 'POST', path: LOOK_UP, body }
  const now = backend.now.getTime()
  const send = (signature: string, path = LOOK_UP, sent = body) =>
    backend.send('POST', path, { headers: { [SIGNATURE_HEADER]: signature }, body: sent })
  const good = signRequest(signed, now, GATEWAY_SECRETS)
  matches(t, await send(good), { status: 200 })
  matches(t, await send(good, `${LOOK_UP}?x`), { status: 404, text: '' })
  matches(t, await send(good, LOOK_UP, `${body} `), { status: 404, text: '' })
  const otherMethod = signRequest({ ...signed, method: 'PUT' }, now, GATEWAY_SECRETS)
  matches(t, await send(otherMethod), { status: 404, text: '' })
  matches(t, await send(signRequest(signed, now, ['other'])), { status: 404, text: '' })
  matches(t, await send(signRequest(signed, now - 60_001, GATEWAY_SECRETS)), {
    status: 404,
    text: '',
  })
})

t.test('a body that is too large is rejected before it has been read completely', async (t) => {
  const backend = await startBackend(t)
  const unending = request(backend.url + LOOK_UP, {
    method: 'POST',
    headers: { [SIGNATURE_HEADER]: 'of a body that never ends' },
  })
  t.teardown(() => unending.destroy())
  unending.write('x'.repeat(1024 * 1024 + 1))
  // A backend that waits for the end of the body would never respond.
  const signal = AbortSignal.timeout(30_000)
  const [response] = await once(unending, 'response', { signal })
  t.equal(response.statusCode, 413)
  matches(t, await json(response), { code: 'payload_too_large', max_bytes: 1024 * 1024 })
  matches(t, await lookUp(backend, 'nothing'), { status: 200, json: { found: false } })
})

t.test('gateways reach the readiness check and the pages of Settings', async (t) => {
  const backend = await startBackend(t)
  matches(t, await backend.request('GET', '/internal/ready'), {
    status: 200,
    json: { ready: true },
  })
  const page = await backend.request('GET', '/settings/login')
  t.equal(page.status, 200)
  matches(t, page.headers.get('content-type'), containing('text/html'))
  matches(t, page.text, containing('Settings'))
})
