import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import type { Writable } from 'node:stream'
import { getAccount } from '../accounts/accounts.ts'
import { recordAudit } from '../accounts/audit.ts'
import { exportAccount } from '../export/export.ts'
import { type Command, type Context, defineCommand, type Output } from './command.ts'
import { createProgress } from './import/progress.ts'

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
          'The file to create, or - for standard output. The file must not exist yet. It appears once it is complete.',
      },
    },
    async run({ ID, to }, context) {
      if (to === '-') {
        // An error event without a listener would end the process. The callback of the write reports the error.
        context.stdout.once('error', () => {})
        await writeExport(context, ID, (lines) => print(lines, context.stdout))
        return { json: undefined, text: '', isPrinted: true }
      }
      return writeFile(context, ID, to)
    },
  }),
]

async function writeFile(context: Context, id: string, to: string): Promise<Output> {
  if (existsSync(to)) throw new Error(`${to} already exists. Name a file that does not exist.`)
  // Each run creates its own incomplete file, which no other run and no other user has opened.
  const partial = `${to}.${randomUUID()}.partial`
  const file = await open(partial, 'wx', 0o600)
  let bytes = 0
  try {
    await writeExport(context, id, (lines) => file.appendFile(lines))
    await file.sync()
    bytes = (await file.stat()).size
    await rename(partial, to)
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  } finally {
    await file.close()
  }
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
    for await (const lines of exportAccount(read, account, context.now, progress))
      await write(lines)
  })
}
