/**
 * `node test/load/disk.ts`: measures how much disk space PostgreSQL uses per row and for its index entries. The rows of
 * a table are copies of one row that the service wrote, with other identifiers.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { openLedger } from '../fixtures/payments/ledger.ts'
import { copyTemplate, startPostgres } from '../fixtures/servers/postgres.ts'

const ROWS = 5_000

/** For each table, the columns that differ between copies, with their values in SQL; `n` is the number of the copy. */
const DISTINCT_COLUMNS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  invoices: { id: "'inv_01M' || lpad(n::text, 23, '0')", number: "'INV-' || n" },
  payments: {
    id: "'pay_01M' || lpad(n::text, 23, '0')",
    idempotency_key: "'key-of-a-payment-' || n",
    invoice_id: "'inv_01M' || lpad(n::text, 23, '0')",
  },
  payment_allocations: {
    payment_id: "'pay_01M' || lpad(n::text, 23, '0')",
    invoice_id: "'inv_01M' || lpad(n::text, 23, '0')",
  },
  idempotency_keys: { key: "'key-of-a-payment-' || n" },
  webhook_events: { id: "'evt_01M' || lpad(n::text, 23, '0')" },
}

const ends: (() => unknown)[] = []
const directory = mkdtempSync(join(tmpdir(), 'disk-'))
const context = {
  testdir: () => directory,
  teardown: (work: () => unknown) => void ends.unshift(work),
}
const server = await startPostgres()
try {
  const { url } = await copyTemplate(server.url('postgres'))
  const ledger = await openLedger(context, { databaseUrl: url, backends: 1 })
  const invoiceId = await ledger.invoice(100)
  await ledger.payer('payer').pay({ key: 'key', reference: 'reference', invoiceId, amount: 100 })
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  // Foreign keys are not checked, because the copies violate them.
  await client.query('set session_replication_role = replica')
  for (const [table, own] of Object.entries(DISTINCT_COLUMNS)) {
    const pairs = Object.entries(own).map(([column, value]) => `'${column}', ${value}`)
    await client.query(
      `insert into ${table} select (jsonb_populate_record(null::${table}, to_jsonb(one) || jsonb_build_object(${pairs}))).*
        from (select * from ${table} limit 1) as one, generate_series(1, ${ROWS}) as n`,
    )
    const { rows } = await client.query(
      'select pg_table_size($1) as rows, pg_indexes_size($1) as indexes',
      [table],
    )
    const [bytes, indexBytes] = [rows[0].rows, rows[0].indexes].map((size) =>
      Math.round(size / ROWS),
    )
    process.stdout.write(`${table}: ${bytes} bytes per row, and ${indexBytes} in its indexes\n`)
  }
  await client.end()
} finally {
  for (const end of ends) await end()
  await server.remove()
  rmSync(directory, { recursive: true, force: true })
}
process.exit()
