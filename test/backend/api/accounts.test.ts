import t from 'tap'
import {
  createAccount,
  getAccount,
  isReadOnly,
  setScopeAllowance,
  setStatus,
} from '../../../backend/accounts/accounts.ts'
import { type ActionContext, OPERATOR } from '../../../backend/accounts/audit.ts'
import { SCOPES } from '../../../backend/accounts/scopes.ts'
import type { AccountStatus } from '../../../backend/database/tables.ts'
import { loadContract } from '../../../shared/contract/contract.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'

const ACTION_CONTEXT: ActionContext = { actor: OPERATOR, now: new Date('2026-11-21T10:15:00.000Z') }
const SYSTEM_ACTION_CONTEXT: ActionContext = {
  ...ACTION_CONTEXT,
  actor: { ...OPERATOR, type: 'system', label: 'trials' },
}

async function openDatabaseWithAccount(
  t: Parameters<typeof openTestDatabase>[0],
  status?: AccountStatus,
) {
  const database = await openTestDatabase(t)
  const account = await database.transaction((tx) =>
    createAccount(tx, { name: ' Acme ', ...(status ? { status } : {}) }, ACTION_CONTEXT),
  )
  return { database, account }
}

t.test('a new account is active, and omitted fields have default values', async (t) => {
  const { database, account } = await openDatabaseWithAccount(t)
  matches(t, account, { name: 'Acme', status: 'active', timezone: 'UTC', default_currency: 'EUR' })
  t.strictSame(await getAccount(database.read, account.id), account)
})

t.test('an invalid name, time zone or currency is rejected', async (t) => {
  const database = await openTestDatabase(t)
  const create = (input: Parameters<typeof createAccount>[1]) =>
    database.transaction((tx) => createAccount(tx, input, ACTION_CONTEXT))
  await rejectsWith(t, create({ name: ' ' }), { code: 'validation_failed' })
  await rejectsWith(t, create({ name: 'a\u0000' }), { code: 'validation_failed' })
  await rejectsWith(t, create({ name: 'A', timezone: 'Mars/Base' }), { code: 'validation_failed' })
  await rejectsWith(t, create({ name: 'A', defaultCurrency: 'XAU' }), {
    code: 'unsupported_currency',
  })
  matches(t, await create({ name: 'A', timezone: 'Asia/Tokyo', defaultCurrency: 'jpy' }), {
    timezone: 'Asia/Tokyo',
    default_currency: 'JPY',
  })
})

t.test('a change of status raises the revision, and is recorded in the audit log', async (t) => {
  const { database, account } = await openDatabaseWithAccount(t)
  const change = (status: AccountStatus) =>
    database.transaction((tx) => setStatus(tx, account.id, status, ACTION_CONTEXT))
  matches(t, await change('suspended'), { status: 'suspended', revision: account.revision + 1 })
  matches(
    t,
    await change('suspended'),
    { revision: account.revision + 1 },
    'the same status changes nothing',
  )
  const audit = await database.read
    .selectFrom('audit_log')
    .select(['action', 'actor_label', 'detail'])
    .orderBy('id')
    .execute()
  t.strictSame(audit.slice(1), [
    {
      action: 'account.status_changed',
      actor_label: 'operator',
      detail: '{"from":"active","to":"suspended"}',
    },
  ])
})

t.test(
  'the system can pause and cancel a trial, but only an operator can undo the cancellation',
  async (t) => {
    const { database, account } = await openDatabaseWithAccount(t, 'trial')
    const change = (status: AccountStatus, actionContext: ActionContext) =>
      database.transaction((tx) => setStatus(tx, account.id, status, actionContext))
    await rejectsWith(t, change('suspended', SYSTEM_ACTION_CONTEXT), { code: 'validation_failed' })
    matches(t, await change('trial_paused', SYSTEM_ACTION_CONTEXT), { status: 'trial_paused' })
    matches(t, await change('cancelled', SYSTEM_ACTION_CONTEXT), { status: 'cancelled' })
    await rejectsWith(t, change('trial', SYSTEM_ACTION_CONTEXT), { code: 'validation_failed' })
    matches(t, await change('trial', ACTION_CONTEXT), { status: 'trial' })
  },
)

t.test(
  'suspended and cancelled accounts, and accounts with a paused trial, are read-only',
  async (t) => {
    const states = ['trial', 'trial_paused', 'active', 'suspended', 'cancelled'] as const
    t.strictSame(states.filter(isReadOnly), ['trial_paused', 'suspended', 'cancelled'])
  },
)

t.test('a scope allowance is sorted and deduplicated; unknown scopes are rejected', async (t) => {
  const { database, account } = await openDatabaseWithAccount(t)
  const allow = (scopes: readonly string[] | null) =>
    database.transaction((tx) => setScopeAllowance(tx, account.id, scopes, ACTION_CONTEXT))
  matches(t, await allow(['payments:read', 'debtors:read', 'payments:read']), {
    scope_allowance: '["debtors:read","payments:read"]',
    revision: account.revision + 1,
  })
  await rejectsWith(t, allow(['payments:delete']), { message: /payments:delete/ })
  matches(t, await allow([]), { scope_allowance: '[]' })
  matches(t, await allow(null), { scope_allowance: null, revision: account.revision + 3 })
})

t.test('the backend has the scopes of the contract, in the same order', async (t) => {
  t.strictSame(SCOPES, loadContract().scopes)
})

t.test('a change of an unknown account fails with not_found', async (t) => {
  const database = await openTestDatabase(t)
  await rejectsWith(
    t,
    database.transaction((tx) => setStatus(tx, 'acct_none', 'active', ACTION_CONTEXT)),
    { code: 'not_found' },
  )
})
