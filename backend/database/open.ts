/** Opens the database that `DATABASE_URL` names. */
import { resolve } from 'node:path'
import type { DatabaseOptions, OpenDatabase } from './database.ts'
import { openPostgres } from './postgres.ts'
import { openSqlite } from './sqlite.ts'

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

/** Throws where the address names neither a file nor a server. */
export function sqlitePath(url: string): string {
  const [, path = ''] = /^sqlite:(.+)$/.exec(url) ?? []
  if (path !== '' && path !== ':memory:') return resolve(path)
  throw new Error(
    `DATABASE_URL must be sqlite:/path/to/file.db or postgres://…, not ${url.replace(/\/\/.*@/, '//…@')}`,
  )
}
