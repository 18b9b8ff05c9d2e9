import { OPERATOR } from '../accounts/audit.ts'
import { eraseDebtor } from '../erasure/erasure.ts'
import { type Command, defineCommand } from './command.ts'

export const erasureCommands: readonly Command[] = [
  defineCommand({
    name: 'debtors erase',
    summary:
      'Erase the personal data of a customer permanently. Amounts, dates, invoice numbers, line items, external_ids and po_numbers remain, and the customer never receives a reminder again. After an interruption, run the command again to complete the erasure.',
    arguments: ['ID'],
    options: {
      reason: {
        type: 'string',
        required: true,
        value: 'REASON',
        description:
          'The reason. The audit log keeps it permanently, so it must contain no personal data.',
      },
    },
    async run({ ID, reason }, context) {
      const database = await context.database()
      const { debtor, wasErasedBefore, erased } = await eraseDebtor(database, ID, {
        actor: OPERATOR,
        reason,
        clock: context.clock,
      })
      // On PostgreSQL, this is always false: only an administrator of the server can delete its write-ahead log.
      const isLogEmpty = await database.truncateWriteAheadLog()
      const json = {
        id: ID,
        account_id: debtor.account_id,
        external_id: debtor.external_id,
        erased_at: debtor.erased_at,
        was_erased: wasErasedBefore,
        erased,
        left_in_database_log: !isLogEmpty,
      }
      const rows = Object.entries(erased)
        .map(([table, count]) => `${count} in ${table}`)
        .join(', ')
      const firstOutcome = `is erased.${rows && ` Personal data was also erased from rows of other tables: ${rows}.`}`
      const repeatedErasure =
        rows === '' ? 'There was nothing more to erase.' : `This run also erased rows: ${rows}.`
      const outcome = wasErasedBefore
        ? `was erased at ${debtor.erased_at}. ${repeatedErasure}`
        : firstOutcome
      const externalIdNote =
        debtor.external_id === null ? '' : ` Its external_id stays: ${debtor.external_id}.`
      return { json, text: `Debtor ${ID} ${outcome}${externalIdNote}\n${remainsNote(isLogEmpty)}` }
    },
  }),
]

function remainsNote(isLogEmpty: boolean): string {
  const places = isLogEmpty
    ? 'Backups that were made before the erasure'
    : 'Backups that were made before the erasure, and the files of the database,'
  return `${places} still contain the data: docs/operations.md, "Personal data", says how to delete it.`
}
