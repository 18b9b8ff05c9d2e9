/**
 * Keeps a copy of customers, invoices and payments in a SQLite file:
 *
 *   node sync.ts books.db
 *
 * Set RECEIVABLES_API_KEY to a key that may read these objects. Run the program every night: it reads the objects that
 * changed since its last run. It can be killed at any time: the objects that it has written are kept, and the next run
 * continues with what this run did not complete.
 */
import { DatabaseSync } from 'node:sqlite'
import { type Client, clientFromEnvironment } from './client.ts'
import type { Debtor, Invoice, Payment } from './receivables-api.ts'

interface Page {
  readonly data: readonly (Debtor | Invoice | Payment)[]
  readonly next_cursor: string | null
}

const TYPES = ['debtors', 'invoices', 'payments'] as const
/**
 * Each run also reads objects that changed up to five minutes before the last run began. That run may have missed calls
 * that were in progress, and the clocks of this machine and of the service may differ.
 */
const OVERLAP_MS = 5 * 60_000

const SCHEMA = `
  create table if not exists runs (type text primary key, begun_at text not null) strict;
  ${TYPES.map(
    (type) => `create table if not exists ${type} (
      id text primary key, revision integer not null, object text not null) strict;`,
  ).join('\n')}`

async function sync(
  client: Client,
  database: DatabaseSync,
  type: (typeof TYPES)[number],
): Promise<number> {
  const begunAt = new Date().toISOString()
  const last = database.prepare('select begun_at from runs where type = ?').get(type)
  const since = new Date(Math.max(0, Date.parse(String(last?.['begun_at'] ?? 0)) - OVERLAP_MS))
  const upsert = database.prepare(`
    insert into ${type} (id, revision, object) values (?, ?, ?)
    on conflict (id) do update set revision = excluded.revision, object = excluded.object
    where excluded.revision >= revision`)
  const query = new URLSearchParams({
    sort: 'updated_at',
    updated_since: since.toISOString(),
    limit: '200',
  })
  let count = 0
  for (;;) {
    const { data, next_cursor } = await client.get<Page>(`/${type}?${query}`)
    database.exec('begin')
    for (const object of data) upsert.run(object.id, object.revision, JSON.stringify(object))
    database.exec('commit')
    count += data.length
    if (next_cursor === null) break
    query.set('cursor', next_cursor)
  }
  // The time is stored after the last page of the type. If the program is killed before that, the next run reads all
  // of these pages again.
  database.prepare('insert or replace into runs (type, begun_at) values (?, ?)').run(type, begunAt)
  return count
}

const [books = 'books.db'] = process.argv.slice(2)
const database = new DatabaseSync(books)
database.exec(SCHEMA)
const client = clientFromEnvironment()
for (const type of TYPES) console.log(`${type}: ${await sync(client, database, type)}`)
