/**
 * `node bare-hapi.ts DATABASE PORT`: the floor with which the product is compared. hapi and a driver read the caller
 * and the debtor, and do nothing else. DATABASE is the database of the product, as the path of a SQLite file or the
 * URL of a PostgreSQL database.
 */
import { server as createHapi } from '@hapi/hapi'
import pg from 'pg'
import sqlite3 from 'sqlite3'

const [database = '', port = ''] = process.argv.slice(2)

const CALLER = `select k.id, k.revision, a.status, a.revision as account_revision
  from api_keys k join accounts a on a.id = k.account_id where k.prefix = `
const DEBTOR = 'select * from debtors where id = '

/** Resolves with the first row. */
type Read = (value: string) => Promise<unknown>

function onSqlite(path: string): readonly [caller: Read, debtor: Read] {
  const connection = new sqlite3.Database(path, sqlite3.OPEN_READONLY)
  const prepare = (text: string): Read => {
    const statement = connection.prepare(`${text} ?`)
    return (value) =>
      new Promise((resolve, reject) => {
        statement.get(value, (error: Error | null, row: unknown) =>
          error === null ? resolve(row) : reject(error),
        )
      })
  }
  return [prepare(CALLER), prepare(DEBTOR)]
}

/** Reads with named statements over a pool with the driver's default number of connections. */
function onPostgres(url: string): readonly [caller: Read, debtor: Read] {
  const pool = new pg.Pool({ connectionString: url })
  const prepare = (name: string, text: string): Read => {
    return async (value) =>
      (await pool.query({ name, text: `${text} $1`, values: [value] })).rows[0]
  }
  return [prepare('caller', CALLER), prepare('debtor', DEBTOR)]
}

const [caller, debtor] = database.startsWith('postgres') ? onPostgres(database) : onSqlite(database)
const server = createHapi({ host: '127.0.0.1', port: Number(port), debug: false })
server.route({
  method: 'GET',
  path: '/api/v1/debtors/{id}',
  async handler(request, h) {
    // The prefix is the twelve characters after "Bearer ".
    const prefix = String(request.headers['authorization']).slice(7, 19)
    const [key, found] = await Promise.all([caller(prefix), debtor(String(request.params['id']))])
    return key === undefined || found === undefined
      ? h.response().code(404)
      : h.response(JSON.stringify(found)).type('application/json')
  },
})
await server.start()
