import { Problem } from '../../../shared/contract/problem.ts'
import { findApiKey } from '../../api-keys/key-list.ts'
import { ConstraintViolation } from '../../database/constraint-violation.ts'
import type { ApiKeyRow, Reader, Transaction } from '../../database/tables.ts'
import type { Session } from '../../sessions/sessions.ts'
import { hashToken } from '../../users/tokens.ts'
import { notFound } from '../shell/faults.ts'
import type { SessionRequest } from '../shell/page-request.ts'

/** Throws `Problem` `not_found`. */
export async function getKey(reader: Reader, { account }: Session, id: string): Promise<ApiKeyRow> {
  return (await findApiKey(reader, account.id, id)) ?? notFound('API key', id)
}

/**
 * Records that the form with the id `submission` has issued the key in `row`. Throws `key_already_issued` if the form
 * was already submitted, e.g. because of a double click or a reload. Does nothing if a request, such as that of a
 * script, has no `submission`.
 */
export async function recordSubmission(
  tx: Transaction,
  { fields, session, actionContext }: SessionRequest,
  row: ApiKeyRow,
): Promise<void> {
  const submission = fields.text('submission')
  if (submission === '') return
  try {
    await tx
      .insertInto('key_submissions')
      .values({
        submission: hashToken(`${session.user.id} ${submission}`),
        account_id: session.account.id,
        key_id: row.id,
        created_at: actionContext.now.toISOString(),
      })
      .execute()
  } catch (error) {
    if (!(error instanceof ConstraintViolation && error.kind === 'unique')) throw error
    throw new Problem(
      'key_already_issued',
      'This key was already issued. Its secret was shown once and cannot be shown again. If you did not store it, revoke the key and issue another.',
    )
  }
}
