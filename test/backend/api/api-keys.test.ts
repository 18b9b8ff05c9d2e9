import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { type ActionContext, OPERATOR } from '../../../backend/accounts/audit.ts'
import { effectiveScopes } from '../../../backend/accounts/scopes.ts'
import {
  findKeysByDigest,
  issueApiKey,
  listApiKeys,
  type NewApiKey,
  revokeApiKey,
} from '../../../backend/api-keys/api-keys.ts'
import { createLastUsed } from '../../../backend/api-keys/last-used.ts'
import { digestApiKey, parseApiKey } from '../../../shared/contract/api-key.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { lockDatabase, openTestDatabase, SILENT } from '../../fixtures/service/database.ts'

const ACTION_CONTEXT: ActionContext = { actor: OPERATOR, now: new Date('2026-11-21T10:15:00.000Z') }
const OLD_PEPPER = { version: 'v1', secret: 'the pepper that was there from the start' }
const NEW_PEPPER = { version: 'v2', secret: 'the pepper that came after it, for rotation' }

async function openDatabaseWithAccount(...[t, options]: Parameters<typeof openTestDatabase>) {
  const database = await openTestDatabase(t, options)
  const account = await database.transaction((tx) =>
    createAccount(tx, { name: 'Acme' }, ACTION_CONTEXT),
  )
  const issue = (input: Partial<NewApiKey> = {}, peppers = [OLD_PEPPER]) =>
    database.transaction((tx) =>
      issueApiKey(
        tx,
        { accountId: account.id, name: 'ERP', scopes: ['debtors:read'], ...input },
        peppers,
        ACTION_CONTEXT,
      ),
    )
  return { database, account, issue }
}

t.test('only a peppered digest of an issued secret is stored', async (t) => {
  const { database, issue } = await openDatabaseWithAccount(t)
  const { row, secret } = await issue({
    name: '  Cafe\u0301  ',
    scopes: ['payments:write', 'debtors:read', 'payments:write'],
  })
  matches(t, parseApiKey(secret), { prefix: row.prefix })
  matches(t, row, {
    name: 'Café',
    granted_scopes: '["debtors:read","payments:write"]',
    rate_limit: 600,
    last_used_at: null,
    revoked_at: null,
    created_by: 'operator',
  })
  const stored = await database.read.selectFrom('api_keys').selectAll().execute()
  const audit = await database.read.selectFrom('audit_log').selectAll().execute()
  const [, , random = ''] = secret.split('_')
  t.notMatch(JSON.stringify([stored, audit]), random)
  t.notMatch(JSON.stringify([stored, audit]), digestApiKey(secret))
})

t.test(
  'a key needs a valid name, at least one scope that exists, and a rate limit above zero',
  async (t) => {
    const { issue } = await openDatabaseWithAccount(t)
    await rejectsWith(t, issue({ name: ' \n', scopes: [] }), {
      code: 'validation_failed',
      members: {
        errors: [
          { pointer: '/name', detail: 'Give the key a name.' },
          { pointer: '/scopes', detail: 'Choose at least one thing the key may do.' },
        ],
      },
    })
    await rejectsWith(t, issue({ name: 'x'.repeat(81) }), { code: 'validation_failed' })
    await rejectsWith(t, issue({ name: 'a\u0007b' }), { code: 'validation_failed' })
    await rejectsWith(t, issue({ scopes: ['debtors:delete'] }), { code: 'validation_failed' })
    await rejectsWith(t, issue({ rateLimit: 0 }), { code: 'validation_failed' })
    await rejectsWith(t, issue({ accountId: 'acct_none' }), { code: 'not_found' })
    matches(t, await issue({ name: '😀'.repeat(80) }), { row: { name: '😀'.repeat(80) } })
  },
)

t.test('a key is found by its digest with any configured pepper', async (t) => {
  const { database, issue } = await openDatabaseWithAccount(t)
  const old = await issue()
  const recent = await issue({}, [NEW_PEPPER, OLD_PEPPER])
  const find = async (secret: string, peppers = [NEW_PEPPER, OLD_PEPPER]) =>
    (await findKeysByDigest(database.read, [digestApiKey(secret)], peppers))[0]
  matches(t, await find(old.secret), { key_id: old.row.id, pepper_version: 'v1' })
  matches(t, await find(recent.secret), { key_id: recent.row.id, pepper_version: 'v2' })
  t.equal(await find(old.secret, [NEW_PEPPER]), undefined)
  t.equal(await find(`${old.secret}x`), undefined)
  t.equal(
    await find(old.secret, [{ ...OLD_PEPPER, version: 'v3' }]),
    undefined,
    'the same secret with another version is another pepper',
  )
  const digests = [recent.secret, `${old.secret}x`, old.secret].map(digestApiKey)
  const several = await findKeysByDigest(database.read, digests, [NEW_PEPPER, OLD_PEPPER])
  t.strictSame(
    several.map((row) => row?.key_id),
    [recent.row.id, undefined, old.row.id],
  )
})

t.test('a revocation is recorded once, and the key stays in the list', async (t) => {
  const { database, account, issue } = await openDatabaseWithAccount(t)
  const { row } = await issue()
  const revoke = (actionContext: ActionContext, accountId?: string) =>
    database.transaction((tx) => revokeApiKey(tx, row.id, actionContext, accountId))
  await rejectsWith(t, revoke(ACTION_CONTEXT, 'acct_other'), { code: 'not_found' })
  const revoked = await revoke(ACTION_CONTEXT, account.id)
  matches(t, revoked, {
    revoked_at: ACTION_CONTEXT.now.toISOString(),
    revoked_by: 'operator',
    revision: 2,
  })
  const later = { actor: { ...OPERATOR, label: 'another' }, now: new Date('2027-01-01T00:00:00Z') }
  t.strictSame(await revoke(later), revoked)
  t.strictSame(await listApiKeys(database.read, account.id), [revoked])
})

t.test(
  'the effective scopes of a key are the granted scopes that its account allows',
  async (t) => {
    t.strictSame(effectiveScopes(['debtors:read', 'payments:write'], null), [
      'debtors:read',
      'payments:write',
    ])
    t.strictSame(
      effectiveScopes(['debtors:read', 'payments:write'], '["payments:write","messages:read"]'),
      ['payments:write'],
    )
    t.strictSame(effectiveScopes(['debtors:read'], '[]'), [])
  },
)

t.test('a time of last use never moves back, even if two processes write it', async (t) => {
  const { database, account, issue } = await openDatabaseWithAccount(t)
  const [a, b] = [await issue(), await issue()]
  const lastUsed = createLastUsed(database, SILENT)
  const otherLastUsed = createLastUsed(database, SILENT)
  const at = (minute: number) => new Date(Date.UTC(2026, 10, 21, 10, minute))
  lastUsed.record(a.row.id, at(20))
  lastUsed.record(a.row.id, at(18))
  lastUsed.record(b.row.id, at(19))
  otherLastUsed.record(b.row.id, at(25))
  await otherLastUsed.flush()
  await lastUsed.close()
  await otherLastUsed.close()
  matches(t, await listApiKeys(database.read, account.id), [
    { last_used_at: at(20).toISOString() },
    { last_used_at: at(25).toISOString() },
  ])
})

t.test('times of last use that could not be written are kept for the next attempt', async (t) => {
  const path = join(t.testdir(), 'test.db')
  const { database, account, issue } = await openDatabaseWithAccount(t, {
    url: `sqlite:${path}`,
    waitMsMax: 500,
  })
  const [{ row }, other] = [await issue(), await issue()]
  const unlock = await lockDatabase(t, path)
  const lastUsed = createLastUsed(database, SILENT)
  lastUsed.record(row.id, ACTION_CONTEXT.now)
  lastUsed.record(other.row.id, ACTION_CONTEXT.now)
  const flushed = rejectsWith(t, lastUsed.flush(), { code: 'service_unavailable' })
  // The attempt to write has begun, and cannot succeed.
  await setImmediate()
  const later = new Date(ACTION_CONTEXT.now.getTime() + 1000)
  lastUsed.record(other.row.id, later)
  await flushed
  await unlock()
  await lastUsed.close()
  matches(t, await listApiKeys(database.read, account.id), [
    { last_used_at: ACTION_CONTEXT.now.toISOString() },
    { last_used_at: later.toISOString() },
  ])
})
