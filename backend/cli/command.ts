/**
 * A command of operators: what it takes and what it does, as data, so that parsing and help are the
 * same for all. A group of commands is a file here that exports a list of them; cli.ts joins these.
 */

import type { Pepper } from '../api-keys/peppers.ts'
import type { OperatorSettings } from '../config.ts'
import type { OpenDatabase } from '../database/open.ts'

export interface Context {
  /** Opened at the first call, closed when the command has ended. */
  database(user?: 'operator' | 'migrator'): Promise<OpenDatabase>
  /** Of the database. */
  url(): string
  /** Throws `SettingsError` where KEY_PEPPER is not known. */
  peppers(): readonly Pepper[]
  /** Throws `SettingsError` where they cannot be read. */
  settings(): OperatorSettings
  readonly now: Date
}

export interface Output {
  /** What `--json` prints. */
  readonly json: unknown
  /** What is printed otherwise; for people. */
  readonly text: string
  /** What was asked for is on standard output already. */
  readonly printed?: boolean
  /** Done, but not as hoped: exit code 1. */
  readonly failed?: boolean
}

export interface Option {
  readonly type: 'string' | 'boolean'
  readonly required?: true
  /** What stands for the value in the help, e.g. `ID`. */
  readonly value?: string
  readonly description: string
}

export interface Command {
  /** Group and verb, e.g. `accounts create`. */
  readonly name: string
  readonly summary: string
  /** Names of the positional arguments; all are required. */
  readonly arguments: readonly string[]
  readonly options: Readonly<Record<string, Option>>
  run(values: Values, context: Context): Promise<Output>
}

/** Of arguments and options, by name. Checked against the command: required ones are there. */
type Values = Readonly<Record<string, string | boolean | undefined>>

type OptionValue<O extends Option> = O extends { type: 'boolean' }
  ? boolean
  : O extends { required: true }
    ? string
    : string | undefined

type ValuesOf<A extends readonly string[], O extends Readonly<Record<string, Option>>> = {
  readonly [K in A[number]]: string
} & { readonly [K in keyof O]: OptionValue<O[K]> }

/** Of acts that others will ask about. */
export const REASON = {
  type: 'string',
  required: true,
  value: 'R',
  description: 'Why, for those who look later.',
} as const

/** Wrong use of the command line: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Types a command's values by what it declares. */
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
    // What is parsed by a declaration has its types; the compiler cannot follow that.
    run: (values, context) => command.run(values as ValuesOf<A, O>, context),
  }
}

/** `a,b` as its parts, without empty ones. */
export function splitList(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

/** Columns aligned, headed by their names. */
export function renderTable(rows: readonly Readonly<Record<string, string>>[]): string {
  const [first] = rows
  if (first === undefined) return 'None.'
  const names = Object.keys(first)
  const lines = [Object.fromEntries(names.map((name) => [name, name.toUpperCase()])), ...rows]
  const widths = names.map((name) => Math.max(...lines.map((line) => (line[name] ?? '').length)))
  return lines
    .map((line) =>
      names
        .map((name, at) => (line[name] ?? '').padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
