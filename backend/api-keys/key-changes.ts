import { type FieldError, Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import { readScopes } from '../accounts/scopes.ts'
import type { ApiKeyRow, Transaction } from '../database/tables.ts'
import { recordEvent } from '../events/events.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { type IssuedApiKey, issueApiKey, lockApiKey, revokeApiKey } from './api-keys.ts'
import { canonicalAddresses, expiryErrors, nameErrors, normalizeName } from './key-input.ts'
import { keyStatus, nextWarningOrExpiry, readAllowedAddresses } from './key-status.ts'
import type { Pepper } from './peppers.ts'
import { representApiKey } from './representation.ts'

/** Absent members leave the key unchanged. */
export interface KeyChange {
  readonly name?: string
  /**
   * The new expiry; null if the key is not to expire. A key that expires can only be changed to expire earlier: it
   * must not stay valid for longer than its owner expects.
   */
  readonly expiresAt?: Date | null
  /** An empty list allows any address. */
  readonly allowedAddresses?: readonly string[]
}

/**
 * Changes an active key. A new expiry and new addresses take effect with the next call. With `accountId`, only a key of
 * this account is found. Throws `Problem` `not_found`, `validation_failed`, `key_not_active`.
 */
export async function changeApiKey(
  tx: Transaction,
  id: string,
  change: KeyChange,
  actionContext: ActionContext,
  accountId?: string,
): Promise<ApiKeyRow> {
  const key = await lockActiveKey(tx, id, actionContext.now, accountId)
  const name = change.name === undefined ? key.name : normalizeName(change.name)
  const { expiresAt, ...expiry } = changedExpiry(key, change.expiresAt, actionContext.now)
  const addresses =
    change.allowedAddresses === undefined
      ? { stored: key.allowed_addresses, errors: [] }
      : canonicalAddresses(change.allowedAddresses)
  const errors = [...nameErrors(name), ...expiry.errors, ...addresses.errors]
  if (errors.length > 0) throw enteredValuesProblem(errors)
  const affectsCalls = expiresAt !== key.expires_at || addresses.stored !== key.allowed_addresses
  if (name === key.name && !affectsCalls) return key
  const changed = await tx
    .updateTable('api_keys')
    .set({ name, expires_at: expiresAt, allowed_addresses: addresses.stored })
    .$if(expiresAt !== key.expires_at, (update) =>
      update.set({ expiry_due_at: nextWarningOrExpiry(expiresAt, actionContext.now) }),
    )
    .$if(affectsCalls, (update) => update.set((set) => ({ revision: set('revision', '+', 1) })))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  await recordKeyChange(tx, key, changed, actionContext)
  return changed
}

/** How long a replaced key can still be used after the rotation. */
export const GRACE_PERIODS_MS = {
  now: 0,
  '1h': 3_600_000,
  '24h': 24 * 3_600_000,
  '7d': 7 * 24 * 3_600_000,
} as const

export type GracePeriod = keyof typeof GRACE_PERIODS_MS

export interface Rotation {
  /** The name of the new key. */
  readonly name: string
  /** The expiry of the new key. */
  readonly expiresAt: Date | null
  readonly grace: GracePeriod
}

/**
 * Issues a key with the scopes, the rate limit and the addresses of an active key. The old key is revoked
 * immediately if `grace` is `now`; otherwise it expires at the end of the grace period, unless it already expires
 * earlier. Throws the same problems as `changeApiKey`.
 */
export async function rotateApiKey(
  tx: Transaction,
  id: string,
  { name, expiresAt, grace }: Rotation,
  peppers: readonly Pepper[],
  actionContext: ActionContext,
  accountId?: string,
): Promise<IssuedApiKey & { readonly replaced: ApiKeyRow }> {
  const key = await lockActiveKey(tx, id, actionContext.now, accountId)
  if (key.replaced_by !== null) {
    throw new Problem('key_not_active', `The API key ${key.name} was already rotated.`)
  }
  const issued = await issueApiKey(
    tx,
    {
      accountId: key.account_id,
      name,
      scopes: readScopes(key.granted_scopes),
      rateLimit: key.rate_limit,
      expiresAt,
      allowedAddresses: readAllowedAddresses(key.allowed_addresses) ?? [],
    },
    peppers,
    actionContext,
  )
  const graceEnd = new Date(actionContext.now.getTime() + GRACE_PERIODS_MS[grace]).toISOString()
  const movesExpiryToGraceEnd =
    grace !== 'now' && (key.expires_at === null || graceEnd < key.expires_at)
  const replaced = await tx
    .updateTable('api_keys')
    .set({ replaced_by: issued.row.id })
    .$if(movesExpiryToGraceEnd, (update) =>
      update.set({
        expires_at: graceEnd,
        expiry_due_at: nextWarningOrExpiry(graceEnd, actionContext.now),
      }),
    )
    .set((set) => ({ revision: set('revision', '+', 1) }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  await recordAudit(tx, actionContext, {
    accountId: key.account_id,
    action: 'api_key.rotated',
    subjectId: id,
    detail: { name: key.name, prefix: key.prefix, replaced_by: issued.row.id, grace },
  })
  await recordUpdatedEvent(tx, key, replaced, actionContext)
  const oldKey = grace === 'now' ? await revokeApiKey(tx, id, actionContext) : replaced
  return { ...issued, replaced: oldKey }
}

async function lockActiveKey(tx: Transaction, id: string, now: Date, accountId?: string) {
  const key = await lockApiKey(tx, id, accountId)
  const status = keyStatus(key, now)
  if (status === 'active') return key
  throw new Problem('key_not_active', `The API key ${key.name} is ${status}; issue a new one.`)
}

function changedExpiry(key: ApiKeyRow, requested: Date | null | undefined, now: Date) {
  const current = key.expires_at
  const expiresAt = requested === undefined ? current : (requested?.toISOString() ?? null)
  if (expiresAt === current) return { expiresAt, errors: [] }
  const isLater = current !== null && (expiresAt === null || expiresAt > current)
  const laterExpiryError: FieldError = {
    pointer: '/expires_at',
    code: 'out_of_range',
    detail: 'The expiry can only be moved to an earlier time. To extend access, rotate the key.',
  }
  return { expiresAt, errors: isLater ? [laterExpiryError] : expiryErrors(requested ?? null, now) }
}

async function recordKeyChange(
  tx: Transaction,
  before: ApiKeyRow,
  after: ApiKeyRow,
  actionContext: ActionContext,
) {
  const summary = ({ name, expires_at, allowed_addresses }: ApiKeyRow) => ({
    name,
    expires_at,
    allowed_addresses: readAllowedAddresses(allowed_addresses),
  })
  await recordAudit(tx, actionContext, {
    accountId: after.account_id,
    action: 'api_key.updated',
    subjectId: after.id,
    detail: { prefix: after.prefix, before: summary(before), after: summary(after) },
  })
  await recordUpdatedEvent(tx, before, after, actionContext)
}

async function recordUpdatedEvent(
  tx: Transaction,
  before: ApiKeyRow,
  after: ApiKeyRow,
  actionContext: ActionContext,
) {
  const event = {
    accountId: after.account_id,
    type: 'api_key.updated',
    subjectId: after.id,
    represent: () => representApiKey(after, actionContext.now),
    representBefore: () => representApiKey(before, actionContext.now),
  } as const
  await recordEvent(tx, event, actionContext.now)
}
