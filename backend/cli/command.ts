/**
 * Operator commands are declared as data, with the types and functions of this file. From the declarations, run.ts
 * parses the command line, and help.ts renders the help.
 */

import type { Readable, Writable } from 'node:stream'
import type { ActionContext } from '../accounts/audit.ts'
import type { Pepper } from '../api-keys/peppers.ts'
import type { OperatorSettings } from '../config.ts'
import type { OpenDatabase } from '../database/open.ts'
import type { Transaction } from '../database/tables.ts'

export type InputStream = Readable & { readonly isTTY?: boolean }

export interface Context {
  /** Opens the database on the first call. The caller must not close it. */
  database(): Promise<OpenDatabase>
  /** Applies the pending migrations, and returns their names. */
  migrate(): Promise<readonly string[]>
  databaseUrl(): string
  /** Throws `SettingsError` if KEY_PEPPER is missing or malformed. */
  peppers(): readonly Pepper[]
  /** Throws `SettingsError` if the settings cannot be read. */
  settings(): OperatorSettings
  /** Performs an action of the operator, at the current time, in one transaction. */
  performAction<T>(
    perform: (tx: Transaction, actionContext: ActionContext) => Promise<T>,
  ): Promise<T>
  readonly clock: () => Date
  readonly env: Readonly<Record<string, string | undefined>>
  /** A function, because Node opens standard input as soon as a program accesses `process.stdin`. */
  stdin(): InputStream
  readonly stdout: Writable
  readonly stderr: Writable
}

export interface Output {
  /** The output with `--json`. */
  readonly json: unknown
  /** The output without `--json`, for people. */
  readonly text: string
  /** Whether the command has already written its result to standard output. */
  readonly isPrinted?: boolean
  /** Whether the command ran but found a failure; the exit code is then 1. */
  readonly failed?: boolean
}

export interface Option {
  readonly type: 'string' | 'boolean'
  readonly required?: true
  /** The placeholder for the value in the help, e.g. `ID`. For `FILE`, an empty path is rejected. */
  readonly value?: string
  readonly description: string
}

export interface Command {
  /** Group and verb, e.g. `accounts create`. */
  readonly name: string
  readonly summary: string
  /** Names of the positional arguments; all are required. For `FILE`, an empty path is rejected. */
  readonly arguments: readonly string[]
  readonly options: Readonly<Record<string, Option>>
  run(values: Values, context: Context): Promise<Output>
}

/** Arguments and options by name, after validation: all that are required are present. */
type Values = Readonly<Record<string, string | boolean | undefined>>

type OptionValue<O extends Option> = O extends { type: 'boolean' }
  ? boolean
  : O extends { required: true }
    ? string
    : string | undefined

type ValuesOf<A extends readonly string[], O extends Readonly<Record<string, Option>>> = {
  readonly [K in A[number]]: string
} & { readonly [K in keyof O]: OptionValue<O[K]> }

export const ACCOUNT = {
  type: 'string',
  required: true,
  value: 'ID',
  description: 'The id of the account.',
} as const

export const REASON = {
  type: 'string',
  required: true,
  value: 'REASON',
  description: 'The reason, which the audit log records.',
} as const

/** The command line is invalid: the command ends with exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The types of the values that `run` receives follow from the declared arguments and options. */
export function defineCommand<
  const A extends readonly string[],
  const O extends Readonly<Record<string, Option>>,
>(command: {
  readonly name: string
  readonly summary: string
  readonly arguments: A
  readonly options: O
  run(values: ValuesOf<A, O>, context: Context): Promise<Output>
}): Command {
  return {
    ...command,
    // The compiler cannot see that `checkUsage` in run.ts has checked the values against this declaration.
    run: (values, context) => command.run(values as ValuesOf<A, O>, context),
  }
}

/** Splits `a, b` at the commas, and drops empty parts. */
export function splitList(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

/** Renders a table. The members of the first row name the columns. Without rows, returns `None.` */
export function renderTable(rows: readonly Readonly<Record<string, string>>[]): string {
  const [first] = rows
  if (first === undefined) return 'None.'
  const names = Object.keys(first)
  const lines = [Object.fromEntries(names.map((name) => [name, name.toUpperCase()])), ...rows]
  const widths = names.map((name) => Math.max(...lines.map((line) => (line[name] ?? '').length)))
  return lines
    .map((line) =>
      names
        .map((name, index) => (line[name] ?? '').padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
