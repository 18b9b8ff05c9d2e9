/** Who did what: one row for each act, written in the act's own transaction. */
import { createId } from '../../shared/contract/id.ts'
import type { AuditRow, Reader, Transaction } from '../database/tables.ts'

export interface Actor {
  readonly type: AuditRow['actor_type']
  readonly id: string | null
  /** As shown to people. */
  readonly label: string
  /** Where the act came from, if over the network. */
  readonly address: string | null
}

/** Whoever may use the command line on the server. */
export const OPERATOR: Actor = { type: 'operator', id: null, label: 'operator', address: null }

/** What every act needs to know besides its subject. */
export interface Act {
  readonly actor: Actor
  readonly now: Date
}

export interface AuditEntry {
  /** Null for what concerns no account, e.g. a login under an address that nobody has. */
  readonly accountId: string | null
  /** `<subject>.<past tense>`, e.g. `api_key.revoked`. */
  readonly action: string
  readonly subjectId: string | null
  /** No secrets. */
  readonly detail?: Readonly<Record<string, unknown>>
}

export async function recordAudit(
  tx: Transaction,
  { actor, now }: Act,
  { accountId, action, subjectId, detail = {} }: AuditEntry,
): Promise<void> {
  await tx
    .insertInto('audit_log')
    .values({
      id: createId('aud'),
      account_id: accountId,
      actor_type: actor.type,
      actor_id: actor.id,
      actor_label: actor.label,
      action,
      subject_id: subjectId,
      detail: JSON.stringify(detail),
      address: actor.address,
      created_at: now.toISOString(),
    })
    .execute()
}

/** The newest first; `before` is the id of the last one of the page before. */
export async function listAudit(
  reader: Reader,
  accountId: string,
  limit: number,
  before?: string,
): Promise<AuditRow[]> {
  const all = reader.selectFrom('audit_log').selectAll().where('account_id', '=', accountId)
  const page = before === undefined ? all : all.where('id', '<', before)
  return page.orderBy('id', 'desc').limit(limit).execute()
}
