import { join } from 'node:path'
import type { Kysely } from 'kysely'
import t from 'tap'
import { getAccount } from '../../../backend/accounts/accounts.ts'
import { readTableShapes } from '../../../backend/database/shape.ts'
import { exportAccount } from '../../../backend/export/export.ts'
import { EXPORTED_TABLES, NOT_EXPORTED } from '../../../backend/export/tables.ts'
import {
  type Json,
  openTestAccount,
  type TestAccount,
} from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'

const SILENT_PROGRESS = { begin() {}, advance() {}, end() {} }

/** Resolves with the parsed lines of an export. `onFirstLines` is called after the first lines have been read. */
async function exportOf(testAccount: TestAccount, onFirstLines = async () => {}): Promise<Json[]> {
  const { database, now } = testAccount.backend
  return database.snapshot(async (read) => {
    const account = await getAccount(read, testAccount.accountId)
    let text = ''
    for await (const lines of exportAccount(read, account, now, SILENT_PROGRESS)) {
      if (text === '') await onFirstLines()
      text += lines
    }
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
  })
}

function rowsOf(lines: readonly Json[], table: string): Json[] {
  return lines.filter((line) => line.table === table).map(({ row }) => row)
}

t.test('an export has every row of the account and none of another account', async (t) => {
  const testAccount = await openTestAccount(t)
  const others = await testAccount.otherAccount()
  for (const owner of [testAccount, others]) {
    const { id } = await owner.createInvoice({ metadata: { erp: '7' } })
    await owner.create('/api/v1/payments', { invoice_id: id, currency: 'EUR', amount: 500 })
    await owner.insertMessage([await owner.createInvoice()])
  }
  const lines = await exportOf(testAccount)
  const [first] = lines
  const last = lines.at(-1)
  matches(t, first.export, {
    format: 'receivables-account-export/1',
    account_id: testAccount.accountId,
  })
  t.strictSame(
    first.export.tables,
    EXPORTED_TABLES.map(({ name }) => name),
  )
  matches(t, last.end.rows, { accounts: 1, debtors: 2, invoices: 2, payments: 1, messages: 1 })
  for (const [table, count] of Object.entries(last.end.rows)) {
    t.equal(rowsOf(lines, table).length, count, table)
  }
  t.notMatch(JSON.stringify(lines), others.accountId)
  const [invoice] = rowsOf(lines, 'invoices')
  matches(t, invoice, { currency: 'EUR', amount: 10_000, metadata: { erp: '7' }, line_items: [] })
})

t.test('no secret is exported', async (t) => {
  const testAccount = await openTestAccount(t)
  const { row } = testAccount.key
  const text = JSON.stringify(await exportOf(testAccount))
  matches(t, text, containing(row.prefix))
  t.notMatch(text, row.digest)
  t.notMatch(text, testAccount.key.secret)
})

// Regression: the allowed addresses of a key were exported as a text that contains JSON.
t.test('the columns of a key that contain JSON are exported as JSON', async (t) => {
  const testAccount = await openTestAccount(t)
  const { backend, accountId } = testAccount
  const { row } = await backend.issueKey(accountId, { allowedAddresses: ['203.0.113.0/24'] })
  const keys = rowsOf(await exportOf(testAccount), 'api_keys')
  const exported = keys.find(({ id }) => id === row.id)
  t.strictSame(exported.allowed_addresses, ['203.0.113.0/24'])
  t.strictSame(exported.granted_scopes, JSON.parse(row.granted_scopes))
})

t.test('an export has the rows of one instant, even if rows are added meanwhile', async (t) => {
  const testAccount = await openTestAccount(t)
  await testAccount.createDebtor()
  const lines = await exportOf(testAccount, async () => {
    await testAccount.createDebtor()
  })
  t.equal(rowsOf(lines, 'debtors').length, 1)
  t.equal(rowsOf(await exportOf(testAccount), 'debtors').length, 2)
})

t.test('an account with many rows is exported completely, in the order of ids', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id } = await testAccount.createDebtor()
  const { database } = testAccount.backend
  const first = await database.read.selectFrom('debtors').selectAll().executeTakeFirstOrThrow()
  const copies = Array.from({ length: 1200 }, (_, n) => {
    return { ...first, id: `deb_${String(n).padStart(5, '0')}`, external_id: null }
  })
  await database.transaction(async (tx) => {
    for (let from = 0; from < copies.length; from += 300) {
      await tx
        .insertInto('debtors')
        .values(copies.slice(from, from + 300))
        .execute()
    }
  })
  const ids = rowsOf(await exportOf(testAccount), 'debtors').map((row) => row.id)
  t.strictSame(ids, [...copies.map((copy) => copy.id), id].toSorted())
})

t.test('every table is exported without its secrets, or listed as not exported', async (t) => {
  const url = `sqlite:${join(t.testdir(), 'tables.db')}`
  const database = await openTestDatabase(t, { url })
  const shapes = await database.transaction((tx) =>
    readTableShapes(tx as unknown as Kysely<unknown>),
  )
  const named = [...EXPORTED_TABLES.map(({ name }) => name), ...NOT_EXPORTED]
  t.strictSame(named.toSorted(), shapes.map(({ name }) => name).toSorted())
  for (const { name, key, json = [], withheld = [] } of EXPORTED_TABLES) {
    const shape = shapes.find((found) => found.name === name)
    const columns = shape?.columns.map((column) => column.name) ?? []
    t.strictSame(key, shape?.key, `${name}: primary key`)
    const unknown = [...json, ...withheld].filter((column) => !columns.includes(column))
    t.strictSame(unknown, [], `${name}: unknown columns`)
    const secrets = columns.filter((column) =>
      /hash|digest|secret$|fingerprint|lease|pepper/.test(column),
    )
    t.strictSame(
      secrets.filter((column) => !withheld.includes(column)),
      [],
      `${name}: secrets`,
    )
  }
})
