/** Opens the database that `DATABASE_URL` names. */
import { resolve } from 'node:path'
import { SettingsError } from '../../shared/process/settings.ts'
import type { DatabaseOptions, OpenDatabase } from './database.ts'
import { openPostgres } from './postgres/postgres.ts'
import { openSqlite } from './sqlite/sqlite.ts'

export type { DatabaseOptions, OpenDatabase } from './database.ts'

/** How long a transaction may wait for the writer; well inside the gateway's deadline of 10 s. */
const WAIT_MS_MAX = 5000

export async function openDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  const complete = { ...options, waitMsMax: options.waitMsMax ?? WAIT_MS_MAX }
  if (isPostgres(options.url)) return openPostgres(complete)
  return openSqlite(sqlitePath(options.url), complete)
}

export function isPostgres(url: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(url)
}

/** For operators, without the password. Throws `SettingsError` where it is none that we know. */
export function describeDatabase(url: string): string {
  if (!isPostgres(url)) return `SQLite, in ${sqlitePath(url)}`
  const address = URL.parse(url)
  if (address === null) throw new SettingsError(['DATABASE_URL is not an address of PostgreSQL'])
  const { hostname, port, pathname, username } = address
  return `PostgreSQL, ${pathname.slice(1)} at ${hostname || 'a socket'}:${port || 5432} as ${username}`
}

/** Throws where the address names neither a file nor a server. */
export function sqlitePath(url: string): string {
  const [, path = ''] = /^sqlite:(.+)$/.exec(url) ?? []
  if (path !== '' && path !== ':memory:') return resolve(path)
  const shown = url.replace(/\/\/.*@/, '//…@')
  throw new SettingsError([
    `DATABASE_URL must be sqlite:/path/to/file.db or postgres://…, not ${shown}`,
  ])
}
