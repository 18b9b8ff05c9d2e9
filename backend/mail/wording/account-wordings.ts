/** Stores the reminder wordings that an account has changed. */
import { lockAccount } from '../../accounts/accounts.ts'
import { type ActionContext, recordAudit } from '../../accounts/audit.ts'
import type { Reader, Transaction } from '../../database/tables.ts'
import type { Language } from './languages.ts'
import type { Stage } from './reminder-words/words.ts'
import { checkWording, defaultWording, WORDING_FIELDS, type Wording } from './wording.ts'

export interface WordingKey {
  readonly stage: Stage
  readonly language: Language
}

/** Returns undefined if the default applies. */
export async function findWording(
  reader: Reader,
  accountId: string,
  { stage, language }: WordingKey,
): Promise<Wording | undefined> {
  return reader
    .selectFrom('reminder_wordings')
    .select(WORDING_FIELDS)
    .where('account_id', '=', accountId)
    .where('stage', '=', stage)
    .where('language', '=', language)
    .executeTakeFirst()
}

export async function listChangedWordings(
  reader: Reader,
  accountId: string,
): Promise<(Wording & { readonly stage: Stage; readonly language: string })[]> {
  return reader
    .selectFrom('reminder_wordings')
    .select(['stage', 'language', ...WORDING_FIELDS])
    .where('account_id', '=', accountId)
    .execute()
}

/**
 * Changes a wording. If `input` is null or equals the default, the default is restored. A field that is absent from
 * `input` counts as empty. Returns whether the wording changed. Throws `validation_failed`, or `not_found` for an
 * unknown account.
 */
export async function setWording(
  tx: Transaction,
  accountId: string,
  key: WordingKey,
  input: Partial<Wording> | null,
  actionContext: ActionContext,
): Promise<boolean> {
  const wording = input === null ? null : checkWording(input)
  await lockAccount(tx, accountId)
  const defaults = defaultWording(key.stage, key.language)
  const before = await findWording(tx, accountId, key)
  const isDefault = wording === null || isSame(wording, defaults)
  const isUnchanged = isDefault
    ? before === undefined
    : before !== undefined && isSame(wording, before)
  if (isUnchanged) return false
  if (isDefault) {
    await tx
      .deleteFrom('reminder_wordings')
      .where('account_id', '=', accountId)
      .where('stage', '=', key.stage)
      .where('language', '=', key.language)
      .execute()
  } else {
    const values = { ...wording, updated_at: actionContext.now.toISOString() }
    await tx
      .insertInto('reminder_wordings')
      .values({ account_id: accountId, ...key, ...values })
      .onConflict((conflict) =>
        conflict.columns(['account_id', 'stage', 'language']).doUpdateSet(values),
      )
      .execute()
  }
  const previous = before ?? defaults
  const current = isDefault ? defaults : wording
  const changed = WORDING_FIELDS.filter((name) => previous[name] !== current[name])
  await recordAudit(tx, actionContext, {
    accountId,
    action: isDefault ? 'account.wording_reset' : 'account.wording_changed',
    subjectId: accountId,
    detail: {
      ...key,
      changes: Object.fromEntries(
        changed.map((name) => [name, { from: previous[name], to: current[name] }]),
      ),
    },
  })
  return true
}

function isSame(a: Wording, b: Wording): boolean {
  return WORDING_FIELDS.every((name) => a[name] === b[name])
}
