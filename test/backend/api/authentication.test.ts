import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { setScopeAllowance, setStatus } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { revokeApiKey } from '../../../backend/api-keys/api-keys.ts'
import { loadContract } from '../../../shared/contract/contract.ts'
import {
  PRINCIPAL_HEADER,
  PRINCIPAL_REJECTION_HEADER,
  SIGNATURE_HEADER,
  signPrincipal,
  signRequest,
} from '../../../shared/contract/principal.ts'
import { matches } from '../../fixtures/matches.ts'
import { GATEWAY_SECRETS, startBackend, type TestBackend } from '../../fixtures/service/backend.ts'
import { lockDatabase, openTestDatabase } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const actionContext = (backend: TestBackend) => ({ actor: OPERATOR, now: backend.now })

/** Returns a function that makes a call with a principal, and resolves with the status and any rejection reason. */
function rejectionsAt(backend: TestBackend) {
  return async (principal: string) => {
    const response = await backend.send('GET', '/api/v1/me', {
      headers: { [PRINCIPAL_HEADER]: principal },
    })
    return [response.status, response.headers.get(PRINCIPAL_REJECTION_HEADER)]
  }
}

t.test('a call is authenticated as the key that its principal names', async (t) => {
  const backend = await startBackend(t)
  const key = await backend.createKey()
  const { status, json } = await backend.call(key, 'GET', '/api/v1/me')
  t.equal(status, 200)
  matches(t, json, { key: { id: key.row.id, label: 'Test' }, account: { name: 'Acme Ltd' } })
})

t.test('every request without a signature or a principal gets the same empty 404', async (t) => {
  const backend = await startBackend(t)
  const requested = [
    ['GET', '/api/v1/me'],
    ['GET', '/api/v1/nothing'],
    ['POST', '/api/v1/payments'],
    ['DELETE', '/api/v1/me'],
    ['GET', '/settings'],
    ['POST', '/internal/api-keys/look-up'],
    ['GET', '/internal/ready'],
    ['GET', '/'],
    ['GET', '/%'],
  ] as const
  const responses = await Promise.all(
    requested.map(([method, path]) =>
      backend.send(method, path, method === 'POST' ? { body: { digest: 'x' } } : {}),
    ),
  )
  const [first] = responses
  matches(t, first, { status: 404, text: '' })
  const headers = (response: typeof first) =>
    [...(response?.headers.keys() ?? [])].filter((name) => !/^(connection|keep-alive)$/.test(name))
  for (const [n, response] of responses.entries()) {
    t.strictSame([response.status, response.text], [404, ''], requested[n]?.join(' ') ?? '')
    t.strictSame(headers(response), headers(first), 'same headers')
  }
})

t.test('an authenticated request to an unknown route also gets an empty 404', async (t) => {
  const backend = await startBackend(t)
  const key = await backend.createKey()
  matches(t, await backend.call(key, 'GET', '/api/v1/nothing'), { status: 404, text: '' })
  matches(t, await backend.call(key, 'DELETE', '/api/v1/me'), { status: 404, text: '' })
  matches(t, await backend.request('GET', '/internal/nothing'), { status: 404, text: '' })
})

t.test('an invalid or outdated principal is rejected with the reason', async (t) => {
  const backend = await startBackend(t)
  const key = await backend.createKey()
  const rejectionOf = async (principal: string) => {
    const response = await backend.send('GET', '/api/v1/me', {
      headers: { [PRINCIPAL_HEADER]: principal },
    })
    return [response.status, response.headers.get(PRINCIPAL_REJECTION_HEADER), response.text]
  }
  const principal = await backend.principalOf(key)

  await t.test('expired', async (t) => {
    const start = backend.now
    matches(t, await rejectionOf(principal), [200, null, String], 'accepted until it expires')
    backend.now = new Date(start.getTime() + 60_001)
    t.strictSame(await rejectionOf(principal), [401, 'principal_expired', ''])
    backend.now = start
  })

  await t.test('forged, or for a key that does not exist', async (t) => {
    const claims = { keyId: key.row.id, keyRevision: 1, accountId: 'acct_x', accountRevision: 1 }
    const expiresAt = backend.now.getTime() + 1000
    const invalid = [401, 'principal_invalid', '']
    t.strictSame(await rejectionOf('x'), invalid)
    t.strictSame(await rejectionOf(signPrincipal(claims, expiresAt, ['another secret'])), invalid)
    t.strictSame(await rejectionOf(signPrincipal(claims, expiresAt, GATEWAY_SECRETS)), invalid)
    const unknownKey = { ...claims, keyId: 'key_none' }
    t.strictSame(await rejectionOf(signPrincipal(unknownKey, expiresAt, GATEWAY_SECRETS)), invalid)
  })

  await t.test(
    'outdated, because the scopes or the status of its account have changed',
    async (t) => {
      const { account_id: id } = key.row
      await backend.database.transaction((tx) =>
        setScopeAllowance(tx, id, ['debtors:read'], actionContext(backend)),
      )
      t.strictSame(await rejectionOf(principal), [401, 'revision_changed', ''])
      const narrowed = await backend.principalOf(key)
      matches(t, await rejectionOf(narrowed), [200, null, String])
      await backend.database.transaction((tx) =>
        setStatus(tx, id, 'suspended', actionContext(backend)),
      )
      t.strictSame(await rejectionOf(narrowed), [401, 'revision_changed', ''])
    },
  )

  await t.test('outdated, because its key was revoked', async (t) => {
    const latest = await backend.principalOf(key)
    await backend.database.transaction((tx) => revokeApiKey(tx, key.row.id, actionContext(backend)))
    t.strictSame(await rejectionOf(latest), [401, 'key_revoked', ''])
    t.strictSame(await rejectionOf(principal), [401, 'key_revoked', ''])
  })
})

t.test(
  'while the gateway secret is rotated, the backend accepts the old and the new secret',
  async (t) => {
    const newSecret = 'the new secret'
    const backend = await startBackend(t, { gatewaySecrets: [newSecret, ...GATEWAY_SECRETS] })
    const { row } = await backend.createKey()
    const { id: keyId, account_id: accountId } = row
    const claims = { keyId, keyRevision: 1, accountId, accountRevision: 1 }
    const now = backend.now.getTime()
    const statusesOf = async (secret: string) => {
      const principal = signPrincipal(claims, now + 1000, [secret])
      const request = { method: 'GET', path: '/internal/ready', body: '' }
      const signature = signRequest(request, now, [secret])
      const call = await backend.send('GET', '/api/v1/me', {
        headers: { [PRINCIPAL_HEADER]: principal },
      })
      const ready = await backend.send(request.method, request.path, {
        headers: { [SIGNATURE_HEADER]: signature },
      })
      return [call.status, ready.status]
    }
    for (const secret of [newSecret, ...GATEWAY_SECRETS]) {
      t.strictSame(await statusesOf(secret), [200, 200], secret)
    }
    t.strictSame(await statusesOf('another secret'), [401, 404])
  },
)

// Regression: a principal that was forged with the old secret, and sent once before the reload, was accepted forever.
t.test('after a reload, principals signed with the old gateway secret are rejected', async (t) => {
  const gatewaySecrets = [...GATEWAY_SECRETS]
  const backend = await startBackend(t, { gatewaySecrets })
  const principal = await backend.principalOf(await backend.createKey())
  const rejectionOf = rejectionsAt(backend)
  t.strictSame(await rejectionOf(principal), [200, null])
  gatewaySecrets.unshift('the new secret')
  t.strictSame(await rejectionOf(principal), [200, null], 'accepted during a rotation')
  gatewaySecrets.pop()
  t.strictSame(await rejectionOf(principal), [401, 'principal_invalid'])
})

// Regression: an attacker with the gateway secret could sign a principal that never expired.
t.test('a principal that is valid for longer than a look-up allows is rejected', async (t) => {
  const backend = await startBackend(t)
  const { row } = await backend.createKey()
  const { id: keyId, account_id: accountId } = row
  const claims = { keyId, keyRevision: 1, accountId, accountRevision: 1 }
  const rejectionOf = rejectionsAt(backend)
  const sign = (expiresAt: number) => signPrincipal(claims, expiresAt, GATEWAY_SECRETS)
  const now = backend.now.getTime()
  // The clock of the backend that signed the principal may be ahead by a minute.
  const latest = now + 60_000 + 60_000
  t.strictSame(await rejectionOf(sign(latest)), [200, null])
  for (const expiresAt of [latest + 1, Date.parse('2999-01-01'), Number.NaN]) {
    const principal = sign(expiresAt)
    t.strictSame(await rejectionOf(principal), [401, 'principal_invalid'], `${expiresAt}`)
    t.strictSame(await rejectionOf(principal), [401, 'principal_invalid'], 'also when repeated')
  }
})

t.test('the backend checks scopes again, after the gateway', async (t) => {
  const backend = await startBackend(t)
  const account = await backend.createAccount()
  const key = await backend.issueKey(account.id, { scopes: ['payments:read', 'debtors:read'] })
  const { status, headers, json } = await backend.call(key, 'POST', '/api/v1/payments', {
    headers: { 'x-request-id': 'req-of-the-gateway' },
    body: {},
  })
  t.equal(status, 403)
  t.equal(
    headers.get('www-authenticate'),
    'Bearer realm="api", error="insufficient_scope", scope="payments:write"',
  )
  t.equal(headers.get('content-type'), 'application/problem+json; charset=utf-8')
  t.equal(headers.get('cache-control'), 'no-store')
  matches(t, json, {
    type: 'https://receivables.test/docs/errors#insufficient_scope',
    code: 'insufficient_scope',
    request_id: 'req-of-the-gateway',
    required_scope: 'payments:write',
    granted_scopes: ['debtors:read', 'payments:read'],
  })
})

t.test('the scope allowance of an account limits its keys, except for /me', async (t) => {
  const backend = await startBackend(t)
  const key = await backend.createKey()
  const setAllowance = (scopes: string[] | null) =>
    backend.database.transaction((tx) =>
      setScopeAllowance(tx, key.row.account_id, scopes, actionContext(backend)),
    )
  await setAllowance([])
  matches(t, await backend.call(key, 'GET', '/api/v1/debtors'), { status: 403 })
  const me = await backend.call(key, 'GET', '/api/v1/me')
  matches(t, me, { status: 200, json: { key: { scopes: [] } } })
  await setAllowance(null)
  matches(t, await backend.call(key, 'GET', '/api/v1/debtors'), { status: 200 })
})

t.test('an invalid request id is replaced', async (t) => {
  const backend = await startBackend(t)
  const key = await backend.createKey()
  const { json } = await backend.call(key, 'GET', '/api/v1/debtors/none', {
    headers: { 'x-request-id': 'a b' },
  })
  matches(t, json['request_id'], /^req_[0-9A-Z]{26}$/)
})

t.test('/me shows when the key was last used before the call', async (t) => {
  const backend = await startBackend(t)
  const key = await backend.createKey()
  const readMe = async () => (await backend.call(key, 'GET', '/api/v1/me')).json
  matches(t, await readMe(), { key: { last_used_at: null } })
  await backend.flushLastUsed()
  const before = backend.now
  backend.now = new Date(before.getTime() + 30_000)
  matches(t, await readMe(), { key: { last_used_at: before.toISOString() } })
})

t.test(
  'every route of the API rejects calls without a principal, and keys without its scope',
  async (t) => {
    const backend = await startBackend(t)
    const key = await backend.createKey()
    const narrowed = await backend.issueKey(key.row.account_id, { scopes: ['messages:read'] })
    for (const { method, path, scope } of loadContract().operations) {
      const url = path.replace('{id}', 'x')
      matches(t, await backend.send(method, url), { status: 404, text: '' }, `${method} ${path}`)
      const isRejected = scope !== undefined && scope !== 'messages:read'
      const { status } = await backend.call(narrowed, method, url)
      t.equal(status === 403, isRejected, `${method} ${path} needs ${scope ?? 'no scope'}`)
    }
  },
)

t.test('calls in progress get their response while the backend drains', async (t) => {
  const path = join(t.testdir(), 'test.db')
  const database = await openTestDatabase(t, { url: `sqlite:${path}` })
  const backend = await startBackend(t, { database })
  const key = await backend.createKey()
  const principal = await backend.principalOf(key)
  const unlock = await lockDatabase(t, path)
  const create = (name: string) =>
    backend.send('POST', '/api/v1/debtors', {
      headers: { [PRINCIPAL_HEADER]: principal },
      body: { name },
    })
  const calls = [create('Globex'), create('Initech')]
  await until(() => database.activity().waiting === 2, 'both calls wait for the lock')
  const drained = backend.drain()
  await unlock()
  const statuses = (await Promise.all(calls)).map(({ status }) => status)
  t.strictSame(statuses, [201, 201])
  await drained
  await t.rejects(backend.send('GET', '/internal/ready'))
})

// Regression: connections that the system had opened, but the backend had not accepted, were reset. Under load,
// gateways responded 502 to their calls.
t.test('connections that wait to be accepted get a response when the backend drains', async (t) => {
  const backend = await startBackend(t, { drainGraceMs: 5_000 })
  const sockets = Array.from({ length: 20 }, () => connect(backend.port, '127.0.0.1'))
  const responses = sockets.map(async (socket) => {
    socket.write('GET /internal/ready HTTP/1.1\r\nhost: backend\r\n\r\n')
    return (await text(socket)).split('\r\n')[0]
  })
  // Node opens the connections after this turn's code. On loopback, the system completes them immediately.
  await new Promise<void>((resolve) => process.nextTick(resolve))
  await Promise.all([backend.drain(), ...responses])
  t.strictSame(
    await Promise.all(responses),
    sockets.map(() => 'HTTP/1.1 404 Not Found'),
  )
})
