import { existsSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { getAccount } from '../accounts/accounts.ts'
import { OPERATOR, recordAudit } from '../accounts/audit.ts'
import { exportAccount } from '../export/export.ts'
import { type Command, type Context, defineCommand, type Output } from './command.ts'
import { createProgress } from './import/progress.ts'

export const exportCommands: readonly Command[] = [
  defineCommand({
    name: 'accounts export',
    summary:
      'Write all that an account has, as it is at one instant, as lines of JSON: a row each, without secrets. docs/operations.md describes them.',
    arguments: ['ID'],
    options: {
      to: {
        type: 'string',
        required: true,
        value: 'FILE',
        description: 'A new file, which appears once it is whole; - for standard output.',
      },
    },
    async run({ ID, to }, context) {
      if (to === '-') {
        await writeExport(context, ID, (lines) => pipeline(lines, standardOutput()))
        return { json: undefined, text: '', printed: true }
      }
      return writeFile(context, ID, to)
    },
  }),
]

async function writeFile(context: Context, id: string, to: string): Promise<Output> {
  if (existsSync(to)) throw new Error(`${to} exists already`)
  const partial = `${to}.partial`
  const file = await open(partial, 'w', 0o600)
  let bytes = 0
  try {
    await writeExport(context, id, (lines) =>
      pipeline(lines, file.createWriteStream({ autoClose: false })),
    )
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

/** Ends with an error where nobody reads any more, and leaves the real one open. */
function standardOutput(): Writable {
  process.stdout.once('error', () => {})
  return new Writable({ write: (lines, _, done) => void process.stdout.write(lines, done) })
}

/** That the data left is in the audit log, also of an export that broke off. */
async function writeExport(
  context: Context,
  id: string,
  write: (lines: Readable) => Promise<void>,
): Promise<void> {
  const database = await context.database()
  await database.transaction(async (tx) => {
    await getAccount(tx, id)
    const act = { actor: OPERATOR, now: context.now }
    await recordAudit(tx, act, { accountId: id, action: 'account.exported', subjectId: id })
  })
  const progress = createProgress(process.stderr)
  await database.snapshot(async (read) => {
    const account = await getAccount(read, id)
    await write(Readable.from(exportAccount(read, account, context.now, progress)))
  })
}
