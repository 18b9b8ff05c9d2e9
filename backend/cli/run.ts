/**
 * Runs one command of the operators' command line. Most commands use short transactions on the database, so they work
 * while the backend runs; their changes take effect with the next call to the API. In contrast, `import` uses the API,
 * and `database copy` requires that no backend runs.
 */
import type { Writable } from 'node:stream'
import { parseArgs } from 'node:util'
import { Problem } from '../../shared/contract/problem.ts'
import { createLogger } from '../../shared/process/log.ts'
import { OPERATOR } from '../accounts/audit.ts'
import { databaseUrl, readOperatorSettings } from '../config.ts'
import { type OpenDatabase, openDatabase } from '../database/open.ts'
import { isRetryable } from '../database/unavailable.ts'
import { accountCommands } from './accounts.ts'
import { type Command, type Context, type InputStream, UsageError } from './command.ts'
import { databaseCommands } from './database.ts'
import { debtorCommands } from './debtors.ts'
import { demoCommands } from './demo.ts'
import { erasureCommands } from './erasure.ts'
import { exportCommands } from './export.ts'
import { renderCommandHelp, renderHelp } from './help.ts'
import { pastImportCommands } from './import/past-imports.ts'
import { createProgress } from './import/progress.ts'
import { importCommands } from './import.ts'
import { invoiceCommands } from './invoices.ts'
import { keyCommands } from './keys.ts'
import { killSwitchCommands } from './kill-switch.ts'
import { paymentCommands } from './payments.ts'
import { reminderContentCommands } from './reminder-content.ts'
import { reminderCommands } from './reminders.ts'
import { scheduleCommands } from './schedule.ts'
import { userCommands } from './users.ts'

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
  ...reminderContentCommands,
  ...killSwitchCommands,
  ...demoCommands,
  ...importCommands,
  ...pastImportCommands,
  ...databaseCommands,
]

export interface ProcessEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>
  stdin(): InputStream
  readonly stdout: Writable
  readonly stderr: Writable
  readonly clock: () => Date
}

/** Resolves to the exit code: 0 after success, 1 after a rejection or failure, 2 for invalid usage. */
export async function runCommand(
  args: readonly string[],
  environment: ProcessEnvironment,
): Promise<0 | 1 | 2> {
  const { stdout, stderr } = environment
  try {
    const { text, failed } = await run(args, environment)
    if (text !== undefined) stdout.write(`${text}\n`)
    return failed ? 1 : 0
  } catch (error) {
    stderr.write(`${explain(error)}\n`)
    return isUsageError(error) ? 2 : 1
  }
}

interface Result {
  /** The text to print; undefined if the command has already printed its result. */
  readonly text?: string
  readonly failed?: boolean
}

async function run(args: readonly string[], environment: ProcessEnvironment): Promise<Result> {
  const command = COMMANDS.find(({ name }) =>
    name.split(' ').every((word, index) => args[index] === word),
  )
  if (command === undefined) return { text: helpFor(args) }
  const rest = args.slice(command.name.split(' ').length)
  const { values, positionals, tokens } = parseArgs({
    args: [...rest],
    allowPositionals: true,
    tokens: true,
    options: {
      ...Object.fromEntries(
        Object.entries(command.options).map(([name, { type }]) => [name, { type }]),
      ),
      json: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  })
  if (values.help) return { text: renderCommandHelp(command) }
  rejectRepeatedOptions(tokens)
  const input = checkUsage(command, values, positionals)
  const output = await withContext(environment, (context) => command.run(input, context))
  const { failed = false } = output
  if (output.isPrinted) return { failed }
  return { text: values.json ? JSON.stringify(output.json) : output.text, failed }
}

type Token = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number]

/** `parseArgs` alone would ignore A in `--account A --account B`. */
function rejectRepeatedOptions(tokens: readonly Token[]): void {
  const given = new Set<string>()
  for (const token of tokens) {
    // Repeating an option without a value changes nothing.
    if (token.kind !== 'option' || token.value === undefined) continue
    if (given.has(token.name)) {
      throw new UsageError(`The command accepts --${token.name} only once`)
    }
    given.add(token.name)
  }
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
  if (missing.length > 0) throw new UsageError(`The command requires ${missing.join(', ')}`)
  if (positionals.length > names.length) {
    throw new UsageError(`The command does not accept ${positionals.slice(names.length).join(' ')}`)
  }
  // Without this check, an empty path, e.g. from an unset shell variable, would cause an error that does not say which
  // path is empty.
  const given = [
    ...names.map((name, index) => [name, name, positionals[index]] as const),
    ...Object.entries(options).map(
      ([name, { value }]) => [`--${name}`, value, values[name]] as const,
    ),
  ]
  const empty = given.find(([, placeholder, value]) => placeholder === 'FILE' && value === '')
  if (empty !== undefined) throw new UsageError(`${empty[0]} is empty: give the path of a file`)
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

async function withContext<T>(
  environment: ProcessEnvironment,
  work: (context: Context) => Promise<T>,
): Promise<T> {
  const settings = () => readOperatorSettings(environment.env)
  let opened: Promise<OpenDatabase> | undefined
  const open = (openedBy: 'operator' | 'migrator') => {
    const log = createLogger('cli', 'silent')
    const progress = createProgress(environment.stderr)
    const { DATABASE_DIRECT_URL: directUrl } = settings()
    return openDatabase({ url: databaseUrl(settings()), directUrl, log, openedBy, progress })
  }
  const context: Context = {
    ...environment,
    database() {
      opened ??= open('operator')
      return opened
    },
    async performAction(perform) {
      const database = await context.database()
      // A command may perform many actions over several minutes. If each action had the time at which the command
      // began, the last changes would have an `updated_at` in the past, and clients that synchronize by `updated_at`
      // would miss them.
      return database.transaction((tx) =>
        perform(tx, { actor: OPERATOR, now: environment.clock() }),
      )
    },
    async migrate() {
      // Opening the database as `migrator` applies the pending migrations.
      const database = await open('migrator')
      await database.close()
      return database.migrated
    },
    databaseUrl: () => databaseUrl(settings()),
    peppers: () => settings().peppers(),
    settings,
  }
  try {
    return await work(context)
  } finally {
    // If the database could not be opened, `work` has already failed with the error, and there is nothing to close.
    await (await opened?.catch(() => undefined))?.close()
  }
}

function helpFor(args: readonly string[]): string {
  const words = args.filter((word) => !word.startsWith('-'))
  const found = COMMANDS.filter(({ name }) => name.startsWith(words.join(' ')))
  if (found.length === 0) throw new UsageError(`There is no command ${words.join(' ')}`)
  if (args.length === 0 || args.includes('--help')) return renderHelp(found)
  if (found.some(({ name }) => name === words.join(' '))) {
    throw new UsageError(`Options must follow the name of the command, ${words.join(' ')}`)
  }
  throw new UsageError(
    `The command is incomplete. Choose one of: ${found.map(({ name }) => name).join(', ')}`,
  )
}

function explain(error: unknown): string {
  if (isUsageError(error)) {
    // A message of `parseArgs` can have several lines.
    const message = error.message.replaceAll('\n', ' ').replace(/\.$/, '')
    return `${message}. For help, run npm run -s cli -- --help`
  }
  if (!(error instanceof Error)) return String(error)
  return error instanceof Problem ? explainProblem(error) : error.message
}

/**
 * Returns the text for operators. Details that are written for clients of the API are replaced, because they mention
 * the list `errors`, JSON Pointers or the Idempotency-Key.
 */
function explainProblem(problem: Problem): string {
  const { message, cause, members } = problem
  const { errors } = members
  if (Array.isArray(errors)) {
    return errors.map((error) => String(error.detail)).join(' ')
  }
  if (!(cause instanceof Error) || problem.status < 500) return message
  if (!isRetryable(problem)) return `${message} (${cause.message})`
  return problem.code === 'gateway_timeout'
    ? `The database failed during the commit, so the change may have been recorded. Check this before you run the command again. (${cause.message})`
    : `The database could not complete the command. Run the command again when the database is available. (${cause.message})`
}

function isUsageError(error: unknown): error is Error {
  if (error instanceof UsageError) return true
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && code.startsWith('ERR_PARSE_ARGS')
}
