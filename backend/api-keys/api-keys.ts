/**
 * The granted scopes of a key never change, and keys are never deleted. The look-up of a gateway finds a key by the
 * digest of its secret; the check of each call finds it by its id.
 */
import assert from 'node:assert'
import { timingSafeEqual } from 'node:crypto'
import { digestApiKey, mintApiKey } from '../../shared/contract/api-key.ts'
import { createId } from '../../shared/contract/id.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { getAccount } from '../accounts/accounts.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import { prepared } from '../database/prepared.ts'
import type { ApiKeyRow, Reader, Transaction } from '../database/tables.ts'
import { recordEvent } from '../events/events.ts'
import { noticeActorOf, recordNotice } from '../mail/notices.ts'
import { checkKeyInput } from './key-input.ts'
import { nextWarningOrExpiry, readAllowedAddresses } from './key-status.ts'
import { type Pepper, pepperDigest } from './peppers.ts'
import { representApiKey } from './representation.ts'

/** In calls per hour. */
export const RATE_LIMIT_DEFAULT = 600
const RATE_LIMIT_MAX = 1_000_000_000

export interface NewApiKey {
  readonly accountId: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly rateLimit?: number
  /** The key is rejected from this instant on. If absent or null, the key does not expire. */
  readonly expiresAt?: Date | null
  /** The address prefixes from which the key may be used. If absent or empty, any address is allowed. */
  readonly allowedAddresses?: readonly string[]
}

export interface IssuedApiKey {
  readonly row: ApiKeyRow
  /** The secret, which is shown once and stored nowhere. */
  readonly secret: string
}

/**
 * The key's digest is made with the first pepper. Throws `not_found` if there is no such account. Throws
 * `validation_failed` for the first of these checks that fails:
 * 1. the name, the expiry and the addresses are valid, and there is at least one scope (`errors` lists everything that
 *    is wrong in these);
 * 2. all scopes are known;
 * 3. the rate limit is valid.
 */
export async function issueApiKey(
  tx: Transaction,
  input: NewApiKey,
  [pepper]: readonly Pepper[],
  actionContext: ActionContext,
): Promise<IssuedApiKey> {
  assert(pepper !== undefined, 'at least one pepper must be configured')
  const { accountId, rateLimit = RATE_LIMIT_DEFAULT } = input
  const { expiresAt: expiry = null, allowedAddresses: addresses = [] } = input
  const withDefaults = { ...input, expiresAt: expiry, allowedAddresses: addresses }
  const { name, scopes, expiresAt, allowedAddresses } = checkKeyInput(
    withDefaults,
    actionContext.now,
  )
  if (!Number.isInteger(rateLimit) || rateLimit < 1 || rateLimit > RATE_LIMIT_MAX) {
    throw new Problem(
      'validation_failed',
      `The rate limit must be a whole number from 1 to ${RATE_LIMIT_MAX} calls per hour.`,
    )
  }
  await getAccount(tx, accountId)
  const { secret, prefix } = mintApiKey()
  const row: ApiKeyRow = {
    id: createId('key'),
    account_id: accountId,
    name,
    prefix,
    digest: pepperDigest(digestApiKey(secret), pepper),
    pepper_version: pepper.version,
    granted_scopes: JSON.stringify(scopes),
    rate_limit: rateLimit,
    revision: 1,
    created_at: actionContext.now.toISOString(),
    created_by: actionContext.actor.label,
    last_used_at: null,
    revoked_at: null,
    revoked_by: null,
    expires_at: expiresAt,
    expired_at: null,
    expiry_due_at: nextWarningOrExpiry(expiresAt, actionContext.now),
    allowed_addresses: allowedAddresses,
    replaced_by: null,
  }
  await tx.insertInto('api_keys').values(row).execute()
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'api_key.issued',
    subjectId: row.id,
    detail: {
      name,
      prefix,
      scopes,
      rate_limit: rateLimit,
      expires_at: expiresAt,
      allowed_addresses: readAllowedAddresses(allowedAddresses),
    },
  })
  // Operators issue keys at the request of Admins, who therefore need no notice.
  if (actionContext.actor.type === 'user') {
    const detail = { name, prefix, by: noticeActorOf(actionContext) }
    await recordNotice(
      tx,
      { accountId, kind: 'api_key.issued', subjectId: row.id, detail },
      actionContext.now,
    )
  }
  const represent = () => representApiKey(row, actionContext.now)
  await recordEvent(
    tx,
    { accountId, type: 'api_key.issued', subjectId: row.id, represent },
    actionContext.now,
  )
  return { row, secret }
}

/** Returns all keys in the order of issue, including revoked ones. */
export async function listApiKeys(reader: Reader, accountId: string): Promise<ApiKeyRow[]> {
  return reader
    .selectFrom('api_keys')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}

/**
 * The revocation takes effect with the next call. A key that is already revoked keeps the time of its first revocation.
 * With `accountId`, only a key of this account is found; operators omit `accountId`. Throws `Problem` `not_found`.
 */
export async function revokeApiKey(
  tx: Transaction,
  id: string,
  actionContext: ActionContext,
  accountId?: string,
): Promise<ApiKeyRow> {
  const key = await lockApiKey(tx, id, accountId)
  if (key.revoked_at !== null) return key
  const revoked = await tx
    .updateTable('api_keys')
    .set({
      revoked_at: actionContext.now.toISOString(),
      revoked_by: actionContext.actor.label,
      expiry_due_at: null,
    })
    .set((set) => ({ revision: set('revision', '+', 1) }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  await recordAudit(tx, actionContext, {
    accountId: key.account_id,
    action: 'api_key.revoked',
    subjectId: id,
    detail: { name: key.name, prefix: key.prefix },
  })
  const event = {
    accountId: key.account_id,
    type: 'api_key.revoked',
    subjectId: id,
    represent: () => representApiKey(revoked, actionContext.now),
    representBefore: () => representApiKey(key, actionContext.now),
  } as const
  await recordEvent(tx, event, actionContext.now)
  return revoked
}

/** With `accountId`, only a key of this account is found. Throws `Problem` `not_found`. */
export async function lockApiKey(
  tx: Transaction,
  id: string,
  accountId?: string,
): Promise<ApiKeyRow> {
  const key = await tx
    .selectFrom('api_keys')
    .selectAll()
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()
  if (key === undefined || (accountId !== undefined && key.account_id !== accountId)) {
    throw new Problem('not_found', `There is no API key ${id}.`)
  }
  return key
}

/** A key and its account as one row, for authentication. */
export type KeyWithAccount = NonNullable<Awaited<ReturnType<typeof findKeyById>>>

/** Also finds revoked keys. */
export async function findKeyById(reader: Reader, id: string) {
  const [row] = await findKey(reader, { id })
  return row
}

const findKey = prepared((reader: Reader, { id }: { id: string }) =>
  selectKeys(reader).where('api_keys.id', '=', id),
)

/**
 * Returns for each digest, in the same order, the key or undefined. The digests are results of `digestApiKey`. Also
 * finds revoked keys.
 */
export async function findKeysByDigest(
  reader: Reader,
  digests: readonly string[],
  peppers: readonly Pepper[],
): Promise<(KeyWithAccount | undefined)[]> {
  const candidates = digests.map((digest) =>
    peppers.map((pepper) => ({
      version: pepper.version,
      digest: Buffer.from(pepperDigest(digest, pepper)),
    })),
  )
  const candidateDigests = candidates.flat().map(({ digest }) => digest.toString())
  const rows = await selectKeys(reader).where('api_keys.digest', 'in', candidateDigests).execute()
  if (rows.length === 0) return digests.map(() => undefined)
  // The rows come in any order. A row may match only with the pepper whose version it states.
  return candidates.map((peppered) =>
    rows.find((row) => {
      const stored = Buffer.from(row.digest)
      return peppered.some(
        ({ version, digest: candidate }) =>
          version === row.pepper_version &&
          candidate.length === stored.length &&
          timingSafeEqual(candidate, stored),
      )
    }),
  )
}

function selectKeys(reader: Reader) {
  return reader
    .selectFrom('api_keys')
    .innerJoin('accounts', 'accounts.id', 'api_keys.account_id')
    .select([
      'api_keys.id as key_id',
      'api_keys.name as key_name',
      'api_keys.prefix',
      'api_keys.digest',
      'api_keys.pepper_version',
      'api_keys.granted_scopes',
      'api_keys.rate_limit',
      'api_keys.revision as key_revision',
      'api_keys.created_at as key_created_at',
      'api_keys.last_used_at',
      'api_keys.revoked_at',
      'api_keys.expires_at',
      'api_keys.expired_at',
      'api_keys.allowed_addresses',
      'accounts.id as account_id',
      'accounts.name as account_name',
      'accounts.status',
      'accounts.timezone',
      'accounts.default_currency',
      'accounts.payment_terms_days',
      'accounts.scope_allowance',
      'accounts.is_demo',
      'accounts.revision as account_revision',
    ])
}
