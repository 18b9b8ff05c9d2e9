/**
 * API keys: issued once with scopes that never change, looked up by digest, revoked and kept. The
 * secret leaves this module at issue and is nowhere afterwards.
 */
import assert from 'node:assert'
import { timingSafeEqual } from 'node:crypto'
import { digestApiKey, mintApiKey } from '../../shared/contract/api-key.ts'
import { createId } from '../../shared/contract/id.ts'
import { type FieldError, Problem } from '../../shared/contract/problem.ts'
import { getAccount } from '../accounts/accounts.ts'
import { type Act, recordAudit } from '../accounts/audit.ts'
import { parseScopes, type Scope } from '../accounts/scopes.ts'
import { prepared } from '../database/prepared.ts'
import type { ApiKeyRow, Reader, Transaction } from '../database/tables.ts'
import { recordEvent } from '../events/events.ts'
import { type Pepper, pepperDigest } from './peppers.ts'
import { renderApiKey } from './representation.ts'

const NAME_LENGTH_MAX = 80

/** Calls an hour, on every plan. */
export const RATE_LIMIT_DEFAULT = 600
export const RATE_LIMIT_MAX = 1_000_000_000

export interface NewApiKey {
  readonly accountId: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly rateLimit?: number
}

export interface IssuedApiKey {
  readonly row: ApiKeyRow
  /** To be shown once. */
  readonly secret: string
}

/** Throws `Problem` `validation_failed` with all faults, `not_found` for the account. */
export async function issueApiKey(
  tx: Transaction,
  { accountId, rateLimit = RATE_LIMIT_DEFAULT, ...input }: NewApiKey,
  [pepper]: readonly Pepper[],
  act: Act,
): Promise<IssuedApiKey> {
  assert(pepper !== undefined, 'There is no pepper')
  const { name, scopes } = checkNewKey(input)
  if (!Number.isInteger(rateLimit) || rateLimit < 1 || rateLimit > RATE_LIMIT_MAX) {
    throw new Problem('validation_failed', 'The rate limit is a whole number of calls an hour.')
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
    created_at: act.now.toISOString(),
    created_by: act.actor.label,
    last_used_at: null,
    revoked_at: null,
    revoked_by: null,
  }
  await tx.insertInto('api_keys').values(row).execute()
  await recordAudit(tx, act, {
    accountId,
    action: 'api_key.issued',
    subjectId: row.id,
    detail: { name, prefix, scopes, rate_limit: rateLimit },
  })
  const render = () => renderApiKey(row)
  await recordEvent(tx, { accountId, type: 'api_key.issued', subjectId: row.id, render }, act.now)
  return { row, secret }
}

/** In the order of issue, revoked ones too. */
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
 * Holds from the next call on. A key that is revoked already keeps its first stamp. `accountId`
 * confines the act to one account; an operator's is not confined. Throws `Problem` `not_found`.
 */
export async function revokeApiKey(
  tx: Transaction,
  id: string,
  act: Act,
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
  if (key.revoked_at !== null) return key
  const revoked = await tx
    .updateTable('api_keys')
    .set({ revoked_at: act.now.toISOString(), revoked_by: act.actor.label })
    .set((set) => ({ revision: set('revision', '+', 1) }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  await recordAudit(tx, act, {
    accountId: key.account_id,
    action: 'api_key.revoked',
    subjectId: id,
    detail: { name: key.name, prefix: key.prefix },
  })
  const event = {
    accountId: key.account_id,
    type: 'api_key.revoked',
    subjectId: id,
    render: () => renderApiKey(revoked),
    renderBefore: () => renderApiKey(key),
  } as const
  await recordEvent(tx, event, act.now)
  return revoked
}

/** A key and its account as one row: what authentication needs of both. */
export type KeyOfAccount = NonNullable<Awaited<ReturnType<typeof findKeyById>>>

/** Revoked keys are found too. */
export async function findKeyById(reader: Reader, id: string) {
  const [row] = await findKey(reader, { id })
  return row
}

const findKey = prepared((reader: Reader, { id }: { id: string }) =>
  selectKeys(reader).where('api_keys.id', '=', id),
)

/** Revoked keys are found too. `digest` is `digestApiKey` of the secret. */
export async function findKeyByDigest(
  reader: Reader,
  digest: string,
  peppers: readonly Pepper[],
): Promise<KeyOfAccount | undefined> {
  const stored = peppers.map((pepper) => ({
    version: pepper.version,
    digest: Buffer.from(pepperDigest(digest, pepper)),
  }))
  const rows = await selectKeys(reader)
    .where(
      'api_keys.digest',
      'in',
      stored.map((candidate) => candidate.digest.toString()),
    )
    .execute()
  return rows.find((row) => {
    const given = Buffer.from(row.digest)
    return stored.some(
      ({ version, digest: expected }) =>
        version === row.pepper_version &&
        given.length === expected.length &&
        timingSafeEqual(given, expected),
    )
  })
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

function checkNewKey(input: Pick<NewApiKey, 'name' | 'scopes'>): {
  readonly name: string
  readonly scopes: readonly Scope[]
} {
  const name = input.name.trim().normalize('NFC')
  const errors: FieldError[] = []
  if (name === '') {
    errors.push({ pointer: '/name', code: 'required', detail: 'Give the key a name.' })
  } else if ([...name].length > NAME_LENGTH_MAX) {
    errors.push({
      pointer: '/name',
      code: 'too_long',
      detail: `The name may have at most ${NAME_LENGTH_MAX} characters.`,
    })
  } else if (!name.isWellFormed() || /\p{Cc}/u.test(name)) {
    errors.push({
      pointer: '/name',
      code: 'invalid_format',
      detail: 'The name may not contain control characters.',
    })
  }
  if (input.scopes.length === 0) {
    errors.push({
      pointer: '/scopes',
      code: 'required',
      detail: 'Choose at least one thing the key may do.',
    })
  }
  if (errors.length > 0) {
    const detail = errors.map((error) => error.detail).join(' ')
    throw new Problem('validation_failed', detail, { members: { errors } })
  }
  return { name, scopes: parseScopes(input.scopes) }
}
