import t from 'tap'
import { digestApiKey } from '../../shared/api-key.ts'
import { startBackend } from '../fixtures/backend.ts'

const LOOK_UP = '/internal/api-keys/look-up'

t.test('a look-up tells what a live key stands for', async (t) => {
  const backend = await startBackend(t)
  const account = await backend.createAccount()
  const key = await backend.issueKey(account.id, { scopes: ['payments:read', 'debtors:read'] })
  const { status, json } = await backend.ask('POST', LOOK_UP, {
    body: { digest: digestApiKey(key.secret) },
  })
  t.equal(status, 200)
  t.match(json, {
    found: true,
    revoked: false,
    key_id: key.row.id,
    account_id: account.id,
    scopes: ['debtors:read', 'payments:read'],
    granted_scopes: ['debtors:read', 'payments:read'],
    rate_limit: 600,
    expires_at: backend.now.getTime() + 60_000,
  })
  t.type(json['principal'], 'string')
})
