/**
 * The operators' command line. Each command is a short transaction on a connection of its own, so that it
 * works while the backend runs and applies from the next call on.
 *
 * Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
 */
import { parseArgs } from 'node:util'
import { Problem } from '../shared/contract/problem.ts'
import { createLogger } from '../shared/process/log.ts'
import { accountCommands } from './cli/accounts.ts'
import { type Command, type Context, UsageError } from './cli/command.ts'
import { databaseCommands } from './cli/database.ts'
import { debtorCommands } from './cli/debtors.ts'
import { demoCommands } from './cli/demo.ts'
import { erasureCommands } from './cli/erasure.ts'
import { exportCommands } from './cli/export.ts'
import { renderCommandHelp, renderHelp } from './cli/help.ts'
import { createProgress } from './cli/import/progress.ts'
import { importCommands } from './cli/import.ts'
import { invoiceCommands } from './cli/invoices.ts'
import { keyCommands } from './cli/keys.ts'
import { killSwitchCommands } from './cli/kill-switch.ts'
import { paymentCommands } from './cli/payments.ts'
import { reminderCommands } from './cli/reminders.ts'
import { scheduleCommands } from './cli/schedule.ts'
import { userCommands } from './cli/users.ts'
import { databaseUrl, readOperatorSettings } from './config.ts'
import { type OpenDatabase, openDatabase } from './database/open.ts'

const COMMANDS: readonly Command[] = [
  ...accountCommands,
  ...exportCommands,
  ...userCommands,
  ...keyCommands,
  ...debtorCommands,
  ...erasureCommands,
  ...invoiceCommands,
  ...paymentCommands,
  ...reminderCommands,
  ...scheduleCommands,
  ...killSwitchCommands,
  ...demoCommands,
  ...importCommands,
  ...databaseCommands,
]

try {
  const printed = await run(process.argv.slice(2))
  if (printed !== undefined) process.stdout.write(`${printed}\n`)
} catch (error) {
  process.stderr.write(`${explain(error)}\n`)
  process.exitCode = isUsageError(error) ? 2 : 1
}

/** Resolves to the text to print. */
async function run(args: readonly string[]): Promise<string | undefined> {
  const command = COMMANDS.find(({ name }) =>
    name.split(' ').every((word, index) => args[index] === word),
  )
  if (command === undefined) return helpOn(args)
  const rest = args.slice(command.name.split(' ').length)
  const { values, positionals } = parseArgs({
    args: [...rest],
    allowPositionals: true,
    options: {
      ...Object.fromEntries(
        Object.entries(command.options).map(([name, { type }]) => [name, { type }]),
      ),
      json: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  })
  if (values.help) return renderCommandHelp(command)
  const input = checkUsage(command, values, positionals)
  const output = await withContext((context) => command.run(input, context))
  if (output.failed) process.exitCode = 1
  if (output.printed) return undefined
  return values.json ? JSON.stringify(output.json) : output.text
}

function checkUsage(
  { arguments: names, options }: Command,
  values: Readonly<Record<string, string | boolean | undefined>>,
  positionals: readonly string[],
) {
  const missing = [
    ...names.slice(positionals.length),
    ...Object.entries(options)
      .filter(([name, { required }]) => required && values[name] === undefined)
      .map(([name]) => `--${name}`),
  ]
  if (missing.length > 0) throw new UsageError(`Missing: ${missing.join(', ')}`)
  if (positionals.length > names.length) {
    throw new UsageError(`Not understood: ${positionals.slice(names.length).join(' ')}`)
  }
  return {
    ...Object.fromEntries(
      Object.entries(options).map(([name, { type }]) => [
        name,
        type === 'boolean' ? values[name] === true : values[name],
      ]),
    ),
    ...Object.fromEntries(names.map((name, index) => [name, positionals[index]])),
  }
}

async function withContext<T>(work: (context: Context) => Promise<T>): Promise<T> {
  const settings = () => readOperatorSettings(process.env)
  let opened: Promise<OpenDatabase> | undefined
  const context: Context = {
    database(user = 'operator') {
      const log = createLogger('cli', 'silent')
      const progress = createProgress(process.stderr)
      const { DATABASE_DIRECT_URL: directUrl } = settings()
      opened ??= openDatabase({ url: databaseUrl(settings()), directUrl, log, user, progress })
      return opened
    },
    url: () => databaseUrl(settings()),
    peppers: () => settings().peppers(),
    settings,
    now: new Date(),
  }
  try {
    return await work(context)
  } finally {
    await (await opened?.catch(() => undefined))?.close()
  }
}

function helpOn(args: readonly string[]): string {
  const words = args.filter((word) => !word.startsWith('-'))
  const found = COMMANDS.filter(({ name }) => name.startsWith(words.join(' ')))
  if (found.length === 0) throw new UsageError(`There is no command ${words.join(' ')}`)
  if (args.length === 0 || args.includes('--help')) return renderHelp(found)
  throw new UsageError(`Which of: ${found.map(({ name }) => name).join(', ')}?`)
}

function explain(error: unknown): string {
  if (isUsageError(error)) return `${error.message}. See: npm run -s cli -- --help`
  if (!(error instanceof Error)) return String(error)
  if (error instanceof Problem && error.cause instanceof Error && error.status >= 500) {
    return `${error.message} (${error.cause.message})`
  }
  return error.message
}

function isUsageError(error: unknown): error is Error {
  if (error instanceof UsageError) return true
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && code.startsWith('ERR_PARSE_ARGS')
}
