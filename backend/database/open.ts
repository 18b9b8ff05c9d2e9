import { resolve } from 'node:path'
import { SettingsError } from '../../shared/process/settings.ts'
import type { DatabaseOptions, OpenDatabase } from './database.ts'
import { openPostgres } from './postgres/postgres.ts'
import { describeServer, parseServer, parseServers } from './postgres/servers.ts'
import { openSqlite } from './sqlite/sqlite.ts'

export type { DatabaseOptions, OpenDatabase } from './database.ts'

/**
 * How long a transaction may wait for SQLite's writer, and a transaction or a read for a connection to PostgreSQL. This
 * is less than the gateway's default timeout of 10 s, so that the backend can still respond.
 */
const WAIT_MS_MAX = 5000

export async function openDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  const complete = { ...options, waitMsMax: options.waitMsMax ?? WAIT_MS_MAX }
  if (isPostgres(options.url)) return openPostgres(complete)
  return openSqlite(sqlitePath(options.url), complete)
}

export function isPostgres(url: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(url)
}

/**
 * Describes the database for operators, without the password. Throws `SettingsError` if the URL is invalid. `setting`
 * is the name of the setting or option that contains the URL.
 */
export function describeDatabase(url: string, setting = 'DATABASE_URL'): string {
  if (!isPostgres(url)) return `SQLite, in ${sqlitePath(url, setting)}`
  const servers = parseServers(url, setting)
  const { pathname = '', username = '' } = parseServer(servers[0]) ?? {}
  return `PostgreSQL, ${pathname.slice(1)} at ${servers.map(describeServer).join(' or ')} as ${username}`
}

/** Returns the path in a `sqlite:` URL. Throws `SettingsError` for any other URL, and for `sqlite::memory:`. */
export function sqlitePath(url: string, setting = 'DATABASE_URL'): string {
  const [, path = ''] = /^sqlite:(.+)$/.exec(url) ?? []
  if (path !== '' && path !== ':memory:') return resolve(path)
  // Any other text may contain a password, so only a `sqlite:` URL or a path is quoted.
  const shown = /^(?:sqlite:.*|[./][^@=;?]*)$/s.test(url) ? url : 'this address'
  throw new SettingsError([
    `${setting} must be sqlite:/path/to/file.db or postgres://…, not ${shown}`,
  ])
}
