import { open } from 'node:fs/promises'
import type { Writable } from 'node:stream'
import { getAccount } from '../accounts/accounts.ts'
import { recordAudit } from '../accounts/audit.ts'
import { exportAccount } from '../export/export.ts'
import { type Command, type Context, defineCommand, type Output } from './command.ts'
import { createProgress } from './import/progress.ts'
import { createFile } from './new-file.ts'

export const exportCommands: readonly Command[] = [
  defineCommand({
    name: 'accounts export',
    summary:
      'Export all data of an account as of one instant, without secrets: one line of JSON per row. docs/operations.md describes the lines.',
    arguments: ['ID'],
    options: {
      to: {
        type: 'string',
        required: true,
        value: 'FILE',
        description:
          'The file to create, or - for standard output. The file must not exist yet. It appears when it is complete.',
      },
    },
    async run({ ID, to }, context) {
      if (to === '-') {
        // An error event without a listener would end the process. The callback of the write reports the error.
        context.stdout.once('error', () => {})
        await writeExport(context, ID, (lines) => print(lines, context.stdout))
        return { json: undefined, text: '', isPrinted: true }
      }
      return exportToFile(context, ID, to)
    },
  }),
]

async function exportToFile(context: Context, id: string, to: string): Promise<Output> {
  const bytes = await createFile(to, context.stderr, async (incompletePath) => {
    // `createFile` has created a file at this path. `r+` opens it, and never creates one.
    await using file = await open(incompletePath, 'r+')
    await writeExport(context, id, (lines) => file.appendFile(lines))
  })
  return {
    json: { account_id: id, path: to, bytes },
    text: `Wrote account ${id} to ${to}, ${bytes.toLocaleString('en-US')} bytes.`,
  }
}

/** Resolves when the lines are written, so that unwritten output does not accumulate in memory. */
function print(lines: string, stdout: Writable): Promise<void> {
  return new Promise((resolve, reject) => {
    stdout.write(lines, (error) => (error ? reject(error) : resolve()))
  })
}

/** The audit log records every export, including interrupted ones. */
async function writeExport(
  context: Context,
  id: string,
  write: (lines: string) => Promise<void>,
): Promise<void> {
  const database = await context.database()
  await context.performAction(async (tx, actionContext) => {
    // Throws if there is no such account, so that nothing is recorded.
    await getAccount(tx, id)
    await recordAudit(tx, actionContext, {
      accountId: id,
      action: 'account.exported',
      subjectId: id,
    })
  })
  const progress = createProgress(context.stderr)
  await database.snapshot(async (read) => {
    const account = await getAccount(read, id)
    for await (const lines of exportAccount(read, account, context.clock(), progress))
      await write(lines)
  })
}
