import { getAccount } from '../../accounts/accounts.ts'
import { type CountedImport, findImport, listImports } from '../../import/imports.ts'
import { auditTakeBack, takeBack } from '../../import/take-back.ts'
import { countRecords, planTakeBack, readImported } from '../../import/take-back-plan.ts'
import { ACCOUNT, type Command, defineCommand, renderTable } from '../command.ts'

const LISTED_MAX = 100

export const pastImportCommands: readonly Command[] = [
  defineCommand({
    name: 'imports list',
    summary: `List the files that an account imported in Settings, the latest first (at most ${LISTED_MAX}).`,
    arguments: [],
    options: { account: ACCOUNT },
    async run({ account }, context) {
      const { read } = await context.database()
      const { id } = await getAccount(read, account)
      const imports = await listImports(read, id, LISTED_MAX)
      return {
        json: imports.map(represent),
        text: renderTable(
          imports.map(({ counts, ...row }) => ({
            id: row.id,
            imported: row.created_at,
            by: row.imported_by,
            customers: String(counts.customer.all),
            invoices: String(counts.invoice.all),
            payments: String(counts.payment.all),
            'taken back': String(takenBackOf({ counts })),
            file: row.file_name,
          })),
        ),
      }
    },
  }),

  defineCommand({
    name: 'imports take-back',
    summary:
      'Take an import back: reverse its payments, void its invoices and archive its customers, except records that have been changed or used since. Afterwards, a corrected version of the file can be imported: its numbers and external_ids can be used again.',
    arguments: ['ID'],
    options: {
      'dry-run': {
        type: 'boolean',
        description:
          'Change nothing. Show how many records can be taken back, and list those that cannot, with the reasons.',
      },
    },
    async run({ ID, 'dry-run': dryRun }, context) {
      const database = await context.database()
      const row = await findImport(database.read, ID)
      if (row === undefined) throw new Error(`There is no import ${ID}.`)
      const readPlan = async () =>
        planTakeBack(database.read, row.account_id, await readImported(database.read, ID))
      const plan = await readPlan()
      const { steps } = plan
      let takenBack = 0
      if (!dryRun && steps.length > 0) {
        await context.performAction((tx, actionContext) =>
          auditTakeBack(tx, row, steps, actionContext),
        )
        for (const step of steps) {
          const isTakenBack = await context.performAction((tx, actionContext) =>
            takeBack(tx, row, step, actionContext),
          )
          if (isTakenBack) takenBack += countRecords(step)
        }
      }
      // A record that was changed or used after `plan` was read has been kept, so the plan is read again.
      const { kept } = dryRun ? plan : await readPlan()
      const plannedCount = steps.reduce((sum, step) => sum + countRecords(step), 0)
      const summary = dryRun
        ? `Records that can be taken back: ${plannedCount}.`
        : `Records that were taken back: ${takenBack}.`
      const keptRecords = kept.map(({ kind, name, reason }) => `${kind} ${name}: ${reason}`)
      return {
        json: {
          import_id: ID,
          dry_run: dryRun,
          can_take_back: plannedCount,
          taken_back: takenBack,
          kept,
        },
        text: [
          `${summary} Records that cannot be taken back: ${kept.length}.`,
          ...keptRecords,
        ].join('\n'),
      }
    },
  }),
]

function takenBackOf({ counts }: Pick<CountedImport, 'counts'>): number {
  return Object.values(counts).reduce((sum, { takenBack }) => sum + takenBack, 0)
}

function represent(row: CountedImport) {
  const { id, file_name, imported_by, created_at, counts } = row
  return {
    ...{ id, file_name, imported_by, created_at, taken_back: takenBackOf(row) },
    ...{ customers: counts.customer.all, invoices: counts.invoice.all },
    payments: counts.payment.all,
  }
}
