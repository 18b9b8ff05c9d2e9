/**
 * Accounts and their status. Every change of the status or of the scope allowance increases `revision`, which
 * invalidates cached principals.
 */
import { createId } from '../../shared/contract/id.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { parseTimezone } from '../calendar/calendar.ts'
import type { AccountRow, AccountStatus, Reader, Transaction } from '../database/tables.ts'
import { recordEvent } from '../events/events.ts'
import { parseCurrency } from '../money/money.ts'
import { normalizeText, trimText } from '../validation/unicode.ts'
import { type ActionContext, recordAudit } from './audit.ts'
import { representAccount } from './representation.ts'
import { parseScopes, type Scope } from './scopes.ts'

export const ACCOUNT_STATUSES = [
  'trial',
  'trial_paused',
  'active',
  'suspended',
  'cancelled',
] as const satisfies readonly AccountStatus[]

/** The transitions that are allowed. Only an operator may cause others, to correct a mistake. */
const TRANSITIONS: Readonly<Record<AccountStatus, readonly AccountStatus[]>> = {
  trial: ['active', 'trial_paused'],
  trial_paused: ['trial', 'active', 'cancelled'],
  active: ['suspended', 'cancelled'],
  suspended: ['active', 'cancelled'],
  cancelled: ['active'],
}

const NAME_LENGTH_MAX = 200

export interface NewAccount {
  readonly name: string
  /** `active` by default. */
  readonly status?: AccountStatus
  /** An IANA name, UTC by default. */
  readonly timezone?: string
  /** EUR by default. */
  readonly defaultCurrency?: string
  readonly isDemo?: boolean
}

/**
 * Whether the API rejects writes, Settings rejects changes of customers, invoices and payments, and no reminders are
 * sent. Reads still work, and Settings still records pauses and disputes and their ends, because these only decide
 * which reminders are sent.
 */
export function isReadOnly(status: AccountStatus): boolean {
  return status === 'suspended' || status === 'cancelled' || status === 'trial_paused'
}

/** Throws `Problem` `validation_failed` or `unsupported_currency`. */
export async function createAccount(
  tx: Transaction,
  input: NewAccount,
  actionContext: ActionContext,
): Promise<AccountRow> {
  const now = actionContext.now.toISOString()
  const account: AccountRow = {
    id: createId('acct'),
    name: parseName(input.name),
    status: input.status ?? 'active',
    timezone: checkTimezone(input.timezone ?? 'UTC'),
    default_currency: checkCurrency(input.defaultCurrency ?? 'EUR'),
    payment_terms_days: 30,
    scope_allowance: null,
    is_demo: input.isDemo ? 1 : 0,
    revision: 1,
    next_invoice_number: 1,
    reply_to: null,
    apply_credit: 'manual',
    second_factor_required_at: null,
    sender_name: null,
    logo_id: null,
    created_at: now,
    updated_at: now,
  }
  await tx.insertInto('accounts').values(account).execute()
  await recordAudit(tx, actionContext, {
    accountId: account.id,
    action: 'account.created',
    subjectId: account.id,
    detail: { name: account.name, status: account.status, is_demo: account.is_demo === 1 },
  })
  return account
}

export async function listAccounts(reader: Reader): Promise<AccountRow[]> {
  return reader.selectFrom('accounts').selectAll().orderBy('created_at').orderBy('id').execute()
}

/** Throws `Problem` `not_found`. */
export async function getAccount(reader: Reader, id: string): Promise<AccountRow> {
  return (await selectAccount(reader, id).executeTakeFirst()) ?? throwNoAccount(id)
}

function selectAccount(reader: Reader, id: string) {
  return reader.selectFrom('accounts').selectAll().where('id', '=', id)
}

function throwNoAccount(id: string): never {
  throw new Problem('not_found', `There is no account ${id}.`)
}

/** Locks the account until the transaction ends. Throws `Problem` `not_found`. */
export async function lockAccount(tx: Transaction, id: string): Promise<AccountRow> {
  const account = await selectAccount(tx, id).forNoKeyUpdate().executeTakeFirst()
  return account ?? throwNoAccount(id)
}

/**
 * The new status takes effect with the next call. Throws `Problem` `not_found`, and `validation_failed` if the actor
 * may not cause the transition (see `TRANSITIONS`).
 */
export async function setStatus(
  tx: Transaction,
  id: string,
  status: AccountStatus,
  actionContext: ActionContext,
): Promise<AccountRow> {
  const account = await lockAccount(tx, id)
  if (account.status === status) return account
  const allowed = TRANSITIONS[account.status]
  if (actionContext.actor.type !== 'operator' && !allowed.includes(status)) {
    throw new Problem(
      'validation_failed',
      `An account that is ${account.status} can become ${allowed.join(' or ')}, not ${status}.`,
    )
  }
  const changed = await updateAndIncreaseRevision(tx, account, { status }, actionContext)
  await recordAudit(tx, actionContext, {
    accountId: id,
    action: 'account.status_changed',
    subjectId: id,
    detail: { from: account.status, to: status },
  })
  if (isReadOnly(account.status) !== isReadOnly(status)) {
    const event = {
      accountId: id,
      type: 'account.read_only_changed',
      subjectId: id,
      represent: () => representAccount(changed, isReadOnly(status)),
      representBefore: () => representAccount(account, isReadOnly(account.status)),
    } as const
    await recordEvent(tx, event, actionContext.now)
  }
  return changed
}

/**
 * Restricts the scopes of all keys of the account; `null` lifts the restriction. A key never gets scopes that it
 * was not granted. Throws `Problem` `not_found`, and `validation_failed` for unknown scopes.
 */
export async function setScopeAllowance(
  tx: Transaction,
  id: string,
  scopes: readonly string[] | null,
  actionContext: ActionContext,
): Promise<AccountRow> {
  const account = await getAccount(tx, id)
  const allowance: readonly Scope[] | null = scopes === null ? null : parseScopes(scopes)
  const changed = await updateAndIncreaseRevision(
    tx,
    account,
    { scope_allowance: allowance === null ? null : JSON.stringify(allowance) },
    actionContext,
  )
  await recordAudit(tx, actionContext, {
    accountId: id,
    action: 'account.scopes_changed',
    subjectId: id,
    detail: { scopes: allowance ?? 'all' },
  })
  return changed
}

async function updateAndIncreaseRevision(
  tx: Transaction,
  account: AccountRow,
  change: Pick<AccountRow, 'status'> | Pick<AccountRow, 'scope_allowance'>,
  { now }: ActionContext,
): Promise<AccountRow> {
  return tx
    .updateTable('accounts')
    .set({ ...change, updated_at: now.toISOString() })
    .set((set) => ({ revision: set('revision', '+', 1) }))
    .where('id', '=', account.id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

function parseName(text: string): string {
  const name = normalizeText(trimText(text), 'NFC')
  if (name === '' || [...name].length > NAME_LENGTH_MAX || /\p{Cc}/u.test(name)) {
    throw new Problem(
      'validation_failed',
      `An account's name has 1 to ${NAME_LENGTH_MAX} characters and no control characters.`,
    )
  }
  return name
}

function checkTimezone(name: string): string {
  const timezone = parseTimezone(name)
  if (timezone !== undefined) return timezone
  throw new Problem(
    'validation_failed',
    `${name} is not an IANA time zone such as Europe/Amsterdam.`,
  )
}

function checkCurrency(text: string): string {
  const code = parseCurrency(text)
  if (code !== undefined) return code
  throw new Problem('unsupported_currency', `${text} is not an ISO 4217 currency such as EUR.`)
}

/** Sets whether Admins need a second factor. Throws `Problem` `not_found`. */
export async function setSecondFactorPolicy(
  tx: Transaction,
  id: string,
  isRequired: boolean,
  actionContext: ActionContext,
): Promise<void> {
  const account = await getAccount(tx, id)
  if ((account.second_factor_required_at !== null) === isRequired) return
  const at = actionContext.now.toISOString()
  await tx
    .updateTable('accounts')
    .set({ second_factor_required_at: isRequired ? at : null, updated_at: at })
    .where('id', '=', id)
    .execute()
  await recordAudit(tx, actionContext, {
    accountId: id,
    action: 'account.second_factor_policy_changed',
    subjectId: id,
    detail: { required: isRequired },
  })
}
