/**
 * Settings are read from the environment at the start and passed down as values. A secret can also be read from the
 * file that the variable `NAME_FILE` names. On SIGHUP, the process reads this file again, but applies only some
 * settings (`reloadable` in `lifecycle.ts`). All faults are reported together. A variable that begins with the prefix
 * of this process, such as `GATEWAY_`, but is neither a setting of this process nor of another one (`foreign`), is a
 * fault too: a mistyped name would otherwise have no effect.
 */
import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'

export interface Setting<T> {
  /** For `--help`, and for the message that says that the setting is missing. */
  readonly description: string
  /** The value if the variable is unset. If there is no fallback, the setting is required. */
  readonly fallback: string | undefined
  /** A secret is shown as `[set]`, never in clear text, and can be read from a file. */
  readonly secret: boolean
  /** Throws an `Error` whose message continues a sentence that begins with the name of the setting. */
  parse(text: string): T
}

export type SettingsOf<S> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never }

export class SettingsError extends Error {
  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.name = 'SettingsError'
  }
}

export interface ReadOptions {
  /** E.g. `GATEWAY_`. A variable with this prefix that belongs to no setting is a fault. */
  readonly prefix: string
  /** Settings of other processes with the same prefix. They are ignored. */
  readonly foreign?: readonly string[]
}

type Environment = Readonly<Record<string, string | undefined>>

/** Throws a `SettingsError` with one line for each fault. A variable that is empty or blank counts as unset. */
export function readSettings<S extends Record<string, Setting<unknown>>>(
  schema: S,
  environment: Environment,
  { prefix, foreign = [] }: ReadOptions,
): SettingsOf<S> {
  const faults: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, setting] of Object.entries(schema)) {
    try {
      const text = readText(name, setting, environment) ?? setting.fallback
      if (text === undefined) faults.push(`${name} is not set: ${setting.description}`)
      else values[name] = setting.parse(text)
    } catch (error) {
      faults.push(`${name}${error instanceof FileFault ? '_FILE' : ''} ${messageOf(error)}`)
    }
  }
  for (const name of Object.keys(environment)) {
    if (name.startsWith(prefix) && !isVariableOf(schema, name) && !foreign.includes(name)) {
      faults.push(`${name} is not a setting of this process`)
    }
  }
  if (faults.length > 0) throw new SettingsError(faults)
  // Each value comes from `parse` of its own setting.
  return Object.freeze(values) as SettingsOf<S>
}

class FileFault extends Error {}

function readText(name: string, { secret }: Setting<unknown>, environment: Environment) {
  const path = secret ? trimmedValue(fileVariableOf(name), environment) : undefined
  const value = trimmedValue(name, environment)
  if (path === undefined) return value
  if (value !== undefined) throw new FileFault(`and ${name} are both set: remove one of them`)
  let text: string
  try {
    text = readFileSync(path, 'utf8').trim()
  } catch (error) {
    throw new FileFault(`cannot be read: ${messageOf(error)}`)
  }
  if (text === '') throw new FileFault(`names an empty file: ${path}`)
  return text
}

/**
 * Returns the value without white space at its ends, or undefined if nothing is left. For example, a value ends with a
 * line break if it comes from a Kubernetes Secret that was created from the output of `echo`.
 */
function trimmedValue(name: string, environment: Environment): string | undefined {
  return environment[name]?.trim() || undefined
}

function isVariableOf(schema: Record<string, Setting<unknown>>, name: string): boolean {
  const [, base = name] = /^(.+)_FILE$/.exec(name) ?? []
  return name in schema || schema[base]?.secret === true
}

/**
 * Returns the variables that are not settings, but begin with the first word of a setting, such as `REDIS_`. They may
 * be mistyped, or belong to another process, so they only cause a note.
 */
export function findPossiblyMistypedVariables(
  schema: Record<string, Setting<unknown>>,
  environment: Environment,
): string[] {
  const words = new Set(Object.keys(schema).map((name) => `${name.split('_', 1)[0]}_`))
  return Object.keys(environment).filter(
    (name) => words.has(name.slice(0, name.indexOf('_') + 1)) && !isVariableOf(schema, name),
  )
}

function fileVariableOf(name: string): string {
  return `${name}_FILE`
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Renders one `NAME=value` line per setting, with secrets masked, for `--check-config`. */
export function describeSettings(
  schema: Record<string, Setting<unknown>>,
  environment: Environment,
): string {
  return Object.entries(schema)
    .map(([name, { fallback, secret }]) => {
      const path = secret && trimmedValue(fileVariableOf(name), environment)
      if (path) return `${name}=[read from ${path}]`
      const text = trimmedValue(name, environment) ?? fallback ?? ''
      // An address, e.g. that of the OpenTelemetry collector, may contain a user and a password.
      return `${name}=${secret && text !== '' ? '[set]' : withoutLogin(text)}`
    })
    .join('\n')
}

/**
 * Masks the user and the password in addresses: everything before the last `@`, because a malformed password may
 * contain any character. `URL` also accepts one slash, or none, after the scheme.
 */
export function withoutLogin(text: string): string {
  return text.replace(/(https?:[/\\]*).*@/gis, '$1[set]@')
}

type SettingOptions = { readonly fallback?: string; readonly secret?: boolean }

function setting<T>(
  description: string,
  { fallback, secret = false }: SettingOptions,
  parse: (text: string) => T,
): Setting<T> {
  return { description, fallback, secret, parse }
}

export function text(description: string, options: SettingOptions = {}): Setting<string> {
  return setting(description, options, (value) => value)
}

/** The value is undefined if the variable is unset. */
export function optional<T>(inner: Setting<T>): Setting<T | undefined> {
  return {
    ...inner,
    fallback: '',
    parse: (value) => (value === '' ? undefined : inner.parse(value)),
  }
}

export function integer(
  description: string,
  { min, max, ...options }: SettingOptions & { readonly min: number; readonly max: number },
): Setting<number> {
  return setting(description, options, (value) => {
    const number = Number(value)
    if (!/^\d+$/.test(value) || number < min || number > max) {
      throw new Error(`must be a whole number from ${min} to ${max}, not "${value}"`)
    }
    return number
  })
}

/** A fraction from 0 to 1. */
export function fraction(description: string, options: SettingOptions = {}): Setting<number> {
  return setting(description, options, (value) => {
    if (!/^(?:0(?:\.\d+)?|\.\d+|1(?:\.0+)?)$/.test(value)) {
      throw new Error(`must be a number from 0 to 1, not "${value}"`)
    }
    return Number(value)
  })
}

/** The name or address of a host to listen on. An IPv6 address may have the brackets that it has in URLs. */
export function host(description: string): Setting<string> {
  return setting(description, { fallback: '127.0.0.1' }, (value) =>
    value.replace(/^\[(.+)\]$/, '$1'),
  )
}

/** A TCP port; 0 chooses a free one. */
export function port(description: string, fallback: number): Setting<number> {
  return integer(description, { min: 0, max: 65_535, fallback: String(fallback) })
}

export function oneOf<const T extends string>(
  description: string,
  values: readonly T[],
  options: SettingOptions = {},
): Setting<T> {
  return setting(description, options, (value) => {
    const found = values.find((candidate) => candidate === value)
    if (found === undefined) throw new Error(`must be one of ${values.join(', ')}, not "${value}"`)
    return found
  })
}

/** At least one value, separated by commas; spaces around values are dropped. */
export function list<T>(inner: Setting<T>): Setting<readonly T[]> {
  return {
    ...inner,
    parse(value) {
      const items = value.split(',')
      return items.map((item, index) => {
        try {
          return inner.parse(item.trim())
        } catch (error) {
          if (items.length === 1) throw error
          // The value may be one secret that happens to contain a comma, so the message explains the comma.
          const reason = messageOf(error)
          throw new Error(
            `contains a comma, so it is read as several values; value ${index + 1} ${reason}`,
          )
        }
      })
    },
  }
}

/** An http or https address without query and fragment; slashes at its end are dropped. */
export function httpUrl(description: string, options: SettingOptions = {}): Setting<string> {
  return setting(description, options, (value) => {
    const url = URL.parse(value)
    // The condition uses `href`, because `search` and `hash` are also empty if nothing follows the `?` or `#`.
    if (url === null || !/^https?:$/.test(url.protocol) || /[?#]/.test(url.href)) {
      throw new Error(
        `must be an http or https address without a query or fragment, not "${withoutLogin(value)}"`,
      )
    }
    return url.href.replace(/\/+$/, '')
  })
}

/**
 * The http or https address of a host, without a path; slashes at its end are dropped. Pages link to paths such as
 * `/settings`, so the service cannot be served below a path.
 */
export function httpOrigin(description: string, options: SettingOptions = {}): Setting<string> {
  return setting(description, options, (value) => {
    const url = URL.parse(value.replace(/\/+$/, ''))
    if (url === null || !/^https?:$/.test(url.protocol) || url.href !== `${url.origin}/`) {
      throw new Error(
        `must be an http or https address without a login, path, query or fragment, such as https://api.example, not "${withoutLogin(value)}"`,
      )
    }
    if (hasPortZero(url)) throw new Error(MUST_NOT_HAVE_PORT_ZERO)
    return url.origin
  })
}

/** Continues a sentence that begins with the name of a setting. */
export const MUST_NOT_HAVE_PORT_ZERO = 'must not have the port 0: name the port of the server'

/** A listener on port 0 chooses a port, but no client can connect to port 0. */
export function hasPortZero({ port }: { readonly port: string }): boolean {
  return /^0+$/.test(port)
}

/** Reads a file of `NAME=value` lines. A byte order mark, which editors on Windows may write, is ignored. */
export function readEnvironmentFile(path: string): Record<string, string | undefined> {
  return parseEnv(readFileSync(path, 'utf8').replace(/^\uFEFF/, ''))
}

/** A secret of at least 32 characters. Shorter texts and placeholders are rejected. */
export function secret(description: string): Setting<string> {
  return setting(description, { secret: true }, (value) => {
    if (value.length < 32) throw new Error('must have at least 32 characters')
    if (/^(.)\1*$|change.?me|default|example|secret/i.test(value)) {
      throw new Error('looks like a placeholder. Create a secret with: openssl rand -base64 33')
    }
    return value
  })
}
