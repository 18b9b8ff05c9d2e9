/**
 * The least that could be done: hapi and the sqlite3 driver, which reads who calls and what is asked
 * for, and nothing else. The floor that the product is held against.
 */
import { server as createHapi } from '@hapi/hapi'
import sqlite3 from 'sqlite3'

const [path = '', port = ''] = process.argv.slice(2)
const database = new sqlite3.Database(path, sqlite3.OPEN_READONLY)
const caller = database.prepare(
  `select k.id, k.revision, a.status, a.revision as account_revision
     from api_keys k join accounts a on a.id = k.account_id where k.prefix = ?`,
)
const debtor = database.prepare('select * from debtors where id = ?')

function first(statement: sqlite3.Statement, value: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    statement.get(value, (error: Error | null, row: unknown) =>
      error === null ? resolve(row) : reject(error),
    )
  })
}

const server = createHapi({ host: '127.0.0.1', port: Number(port), debug: false })
server.route({
  method: 'GET',
  path: '/api/v1/debtors/{id}',
  async handler(request, h) {
    // "Bearer " and the twelve characters of a prefix.
    const prefix = String(request.headers['authorization']).slice(7, 19)
    const [who, found] = await Promise.all([
      first(caller, prefix),
      first(debtor, String(request.params['id'])),
    ])
    return who === undefined || found === undefined
      ? h.response().code(404)
      : h.response(JSON.stringify(found)).type('application/json')
  },
})
await server.start()
