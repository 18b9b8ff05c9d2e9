/** The audit log: one row for each act, written in the same transaction. */
import { createId } from '../../shared/contract/id.ts'
import type { AuditRow, Reader, Transaction } from '../database/tables.ts'

export interface Actor {
  readonly type: AuditRow['actor_type']
  readonly id: string | null
  /** As shown to people. */
  readonly label: string
  /** The client's address, if the act came over the network. */
  readonly address: string | null
}

/** A person with access to the command line on the server. */
export const OPERATOR: Actor = { type: 'operator', id: null, label: 'operator', address: null }

/** Who acts, and when. */
export interface Act {
  readonly actor: Actor
  readonly now: Date
}

export interface AuditEntry {
  /** Null if no account is concerned, e.g. a login with an unknown address. */
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

/** Newest first. `before` is the last id of the previous page. */
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
