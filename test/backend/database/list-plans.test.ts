// How SQLite reads pages of lists. Its plan does not depend on the rows, because it has no statistics. PostgreSQL has
// statistics; the last tests check that its statements let it use them.
import { join } from 'node:path'
import { type CompiledQuery, sql } from 'kysely'
import t, { type Test } from 'tap'
import type { Reader } from '../../../backend/database/database.ts'
import { kyselyOnConnection } from '../../../backend/database/postgres/kysely.ts'
import type { Tables } from '../../../backend/database/tables.ts'
import { listDebtors } from '../../../backend/debtors/debtors.ts'
import { type InvoiceFilters, listInvoices } from '../../../backend/invoices/invoice-list.ts'
import type { KeysetPage } from '../../../backend/lists/keyset.ts'
import { listMessages, type MessageFilters } from '../../../backend/messages/messages.ts'
import { listPayments } from '../../../backend/payments/payment-list.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'

interface Step {
  readonly detail: string
}

/** An operation of SQLite's virtual machine. `p1` is usually the number of the cursor over a table or an index. */
interface Operation {
  readonly opcode: string
  readonly p1: number
}

type List = (reader: Reader) => Promise<unknown>

/**
 * Resolves with a function that returns the steps of SQLite's plans for a page of a list. The account is empty. The
 * first `positions` queries for the end of a portion of a scan nevertheless find a row, as in a large account.
 */
async function openListPlanner(t: Test) {
  const explainPage = await openExplainer<Step>(t, 'explain query plan')
  return async (list: List, positions = 0): Promise<string[]> =>
    (await explainPage(list, positions)).map(({ detail }) => detail)
}

/** Resolves with a function that returns the rows with which SQLite explains its statements for a page of a list. */
async function openExplainer<Row>(t: Test, keyword: 'explain' | 'explain query plan') {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const { read, transaction } = await openTestDatabase(t, { url })
  return async (list: List, positions = 0): Promise<Row[]> => {
    const explained: Row[] = []
    let remaining = positions
    const planner: Reader = {
      selectFrom: read.selectFrom.bind(read),
      fn: read.fn,
      dynamic: read.dynamic,
      getExecutor: () => read.getExecutor(),
      async executeQuery(query) {
        const { sql: text, parameters } = 'compile' in query ? query.compile() : query
        const [first = '', ...others] = text.split(/\?\d+/)
        const rest = others.map((part, at) => sql`${parameters[at]}${sql.raw(part)}`)
        const explain = sql<Row>`${sql.raw(`${keyword} ${first}`)}${sql.join(rest, sql``)}`
        const { rows } = await transaction((tx) => explain.execute(tx))
        explained.push(...rows)
        const isPosition = / offset \d+$/.test(text) && remaining-- > 0
        // The rows have the type of the caller's query, of which only positions are read.
        return { rows: isPosition ? [{ value: '2026-11-02', id: 'id_1' } as never] : [] }
      },
    }
    await list(planner)
    return explained
  }
}

async function openPlanner(t: Test) {
  const planOf = await openListPlanner(t)
  return (filters: InvoiceFilters, page: KeysetPage) =>
    planOf((reader) => listInvoices(reader, 'acc_1', filters, '2026-11-21', page))
}

// Regression: SQLite began at the limit of the filter, so the time of a page grew with the number of pages before it.
t.test('a page begins at its cursor even if a filter limits the sort column too', async (t) => {
  const planOf = await openPlanner(t)
  const at = '2026-11-01T00:00:00.000Z'
  const after = { value: '2026-11-02T00:00:00.000Z', id: 'inv_1' }
  for (const sort of ['created_at', 'updated_at']) {
    const ascending: KeysetPage = { sort, direction: 'asc', rowsMax: 51, after }
    const upward = await planOf({ [sort.replace(/at$/, 'since')]: at }, ascending)
    t.ok(upward.join().includes(`(account_id=? AND (${sort},id)>(?,?))`), `${sort}, ascending`)
    const descending: KeysetPage = { ...ascending, direction: 'desc' }
    const downward = await planOf({ [sort.replace(/at$/, 'before')]: at }, descending)
    t.ok(downward.join().includes(`(account_id=? AND (${sort},id)<(?,?))`), `${sort}, descending`)
  }
  const latest: KeysetPage = { sort: 'due_date', direction: 'desc', rowsMax: 51, after }
  const overdue = await planOf({ overdue: true }, latest)
  t.ok(overdue.join().includes('invoices_unpaid (account_id=? AND (due_date,id)<(?,?))'), 'overdue')
})

// Regression: SQLite scanned all invoices of the account in the order of the list.
t.test('the few matches of a filter are read from the index of the filter', async (t) => {
  const planOf = await openPlanner(t)
  const at = '2026-11-01T00:00:00.000Z'
  const cases: [InvoiceFilters, string, string][] = [
    [{ status: ['written_off'] }, 'updated_at', 'invoices_by_status (account_id=? AND status=?)'],
    [{ currency: 'USD' }, 'due_date', 'invoices_by_currency (account_id=? AND currency=?)'],
    [{ updated_since: at }, 'created_at', 'invoices_by_update (account_id=? AND updated_at>?)'],
    [{ overdue: true }, 'updated_at', 'invoices_unpaid (account_id=? AND due_date<?)'],
    [{ overdue: true, created_since: at }, 'updated_at', 'invoices_by_creation (account_id=? AND'],
  ]
  for (const [filters, sort, index] of cases) {
    // An empty account has only few matches of each filter.
    const steps = await planOf(filters, { sort, direction: 'desc', rowsMax: 51, after: undefined })
    const found = steps.filter((step) => step.includes('invoices USING INDEX invoices_'))
    const name = JSON.stringify([filters, sort])
    t.ok(found.at(-1)?.includes(index), name)
    t.notOk(found.join('\n').includes('(account_id=?)'), `${name}: the whole account is not read`)
  }
})

const AT = '2026-11-01T00:00:00.000Z'
const pageOf = (sort: string, direction: KeysetPage['direction']): KeysetPage => ({
  ...{ sort, direction, rowsMax: 51, after: undefined },
})

const NEWEST = ['created_at', 'desc'] as const

// Regression: SQLite sorted all messages of the account for each portion of the messages that were sent since a time.
// With a million messages, a page took nine seconds.
t.test('the matches of a filter by the time of sending are counted in its index', async (t) => {
  const planOf = await openListPlanner(t)
  const steps = await planOf(
    (reader) => listMessages(reader, 'acc_1', { sent_since: AT }, pageOf('created_at', 'asc')),
    4,
  )
  const later = steps.filter((step) =>
    step.includes('COVERING INDEX messages_by_sending (account_id=? AND (sent_at,id)>(?,?))'),
  )
  t.equal(later.length, 2, steps.join('\n'))
})

// Regression: SQLite scanned half of the account until the first match.
t.test('if a filter implies a limit of the sort column, a page begins at this limit', async (t) => {
  const planOf = await openListPlanner(t)
  const day = '2026-11-01'
  const cases: [string, List, string][] = [
    [
      'created, sorted by update',
      (reader) =>
        listInvoices(reader, 'acc_1', { created_since: AT }, day, pageOf('updated_at', 'asc')),
      'invoices_by_update (account_id=? AND updated_at>?',
    ],
    [
      'updated, sorted by creation',
      (reader) =>
        listInvoices(reader, 'acc_1', { updated_before: AT }, day, pageOf('created_at', 'desc')),
      'invoices_by_creation (account_id=? AND created_at<?',
    ],
    [
      'sent, sorted by update',
      (reader) => listMessages(reader, 'acc_1', { sent_since: AT }, pageOf('updated_at', 'asc')),
      'messages_by_update (account_id=? AND updated_at>?',
    ],
    [
      'sent, sorted by creation',
      (reader) => listMessages(reader, 'acc_1', { sent_before: AT }, pageOf('created_at', 'desc')),
      'messages_by_creation (account_id=? AND created_at<?',
    ],
    [
      'received, sorted by creation',
      (reader) =>
        listPayments(reader, 'acc_1', { received_since: day }, pageOf('created_at', 'asc')),
      'payments_by_creation_and_receipt (account_id=? AND created_at>?',
    ],
    [
      'received, sorted by update',
      (reader) =>
        listPayments(reader, 'acc_1', { received_since: day }, pageOf('updated_at', 'asc')),
      'payments_by_update_and_receipt (account_id=? AND updated_at>?',
    ],
  ]
  for (const [name, list, step] of cases) {
    t.ok((await planOf(list, 2)).join().includes(step), name)
  }
})

// Regression: SQLite read each payment that was recorded later than the payments of the page.
t.test('payments that were received at another time are skipped in the index', async (t) => {
  const operationsOf = await openExplainer<Operation>(t, 'explain')
  for (const sort of ['created_at', 'updated_at']) {
    const operations = await operationsOf((reader) =>
      listPayments(reader, 'acc_1', { received_before: '2026-11-01' }, pageOf(sort, 'desc')),
    )
    // SQLite reads the row when an operation needs a column that the index lacks.
    const seek = operations.findIndex(({ opcode }) => opcode === 'DeferredSeek')
    t.not(seek, -1, `${sort}: the row is read later than its entry in the index`)
    const first = operations.slice(seek).find(({ opcode }) => opcode === 'Column')
    t.equal(first?.p1, operations[seek]?.p1, `${sort}: the date is read from the index`)
  }
})

// Regression: SQLite read all payments of the account from an index that contains their ids.
t.test('the payments of an invoice are found by their ids', async (t) => {
  const planOf = await openListPlanner(t)
  for (const sort of ['created_at', 'updated_at']) {
    const steps = await planOf((reader) =>
      listPayments(reader, 'acc_1', { invoice_id: 'inv_1' }, pageOf(sort, 'desc')),
    )
    const ofPayments = steps.filter((step) => / payments /.test(step))
    t.ok(ofPayments.length > 0 && ofPayments.every((step) => step.endsWith('(id=?)')), sort)
  }
})

// Regression: SQLite read all messages of the account.
t.test('the messages of a rare channel are read from the index of rare channels', async (t) => {
  const planOf = await openListPlanner(t)
  const bySms = 'INDEX messages_by_channel (account_id=? AND channel=?)'
  for (const sort of ['created_at', 'updated_at']) {
    const list = (filters: MessageFilters) =>
      planOf((reader) =>
        listMessages(reader, 'acc_1', { ...filters, channel: 'sms' }, pageOf(sort, 'desc')),
      )
    const steps = await list({})
    t.ok(steps.includes(`SEARCH messages USING ${bySms}`), sort)
    t.notOk(steps.join().includes('INDEX messages_by_creation'), sort)
    const ofStatus = await list({ statuses: ['sent'] })
    t.ok(ofStatus.includes(`SEARCH messages USING COVERING ${bySms}`), `${sort}, counted`)
  }
  const ofDebtor = await planOf((reader) =>
    listMessages(reader, 'acc_1', { channel: 'sms', debtor_id: 'deb_1' }, pageOf(...NEWEST)),
  )
  t.strictSame(ofDebtor, [
    'SEARCH messages USING INDEX messages_by_debtor (account_id=? AND debtor_id=?)',
  ])
  const ofMails = await planOf((reader) =>
    listMessages(reader, 'acc_1', { channel: 'email' }, pageOf(...NEWEST)),
  )
  t.strictSame(ofMails, ['SEARCH messages USING INDEX messages_by_creation (account_id=?)'])
})

// Regression: SQLite read all unpaid invoices if few had the status.
t.test(
  'unpaid invoices are read in the order of the list, or by status if few have the status',
  async (t) => {
    const planOf = await openPlanner(t)
    const byDueDate = pageOf('due_date', 'asc')
    const inOrder = 'SEARCH invoices USING INDEX invoices_unpaid (account_id=?)'
    t.strictSame(await planOf({ status: ['open', 'partially_paid'] }, byDueDate), [inOrder])
    const few = await planOf({ status: ['partially_paid'] }, byDueDate)
    t.ok(few.join().includes('USING INDEX invoices_by_status (account_id=? AND status=?)'))
    t.notOk(few.includes(inOrder))
    const planOfMany = await openListPlanner(t)
    const many = await planOfMany(
      (reader) => listInvoices(reader, 'acc_1', { status: ['open'] }, '2026-11-21', byDueDate),
      2,
    )
    const portion =
      'SEARCH invoices USING INDEX invoices_unpaid (account_id=? AND (due_date,id)<(?,?))'
    t.ok(many.includes(portion), many.join('\n'))
  },
)

// Regression: SQLite read and sorted all debtors if the names of all began with the prefix.
t.test(
  'debtors are read by name if few have the prefix, and in the order of the list if many have it',
  async (t) => {
    const planOf = await openListPlanner(t)
    const list: List = (reader) =>
      listDebtors(reader, 'acc_1', { q: 'de' }, '2026-11-21', pageOf('created_at', 'desc'))
    const ofFew = await planOf(list)
    t.ok(
      ofFew.join().includes('debtors_by_name (account_id=? AND name_search>? AND name_search<?)'),
    )
    t.notOk(ofFew.join().includes('debtors_by_creation'))
    const ofMany = await planOf(list, 2)
    t.ok(
      ofMany
        .join()
        .includes('USING INDEX debtors_by_creation (account_id=? AND (created_at,id)>(?,?))'),
    )
  },
)

/** Resolves with PostgreSQL's statements for a page of a list. */
async function statementsOf(list: List): Promise<string[]> {
  const texts: string[] = []
  const recording = kyselyOnConnection<Tables>({
    async executeQuery({ sql: text }: CompiledQuery) {
      texts.push(text)
      return { rows: [] }
    },
    async *streamQuery() {},
  })
  await list(recording)
  return texts
}

// Regression: an expression that keeps SQLite from using an index also hid from PostgreSQL how many rows match. With a
// million messages, of which none had the stage, a page read half a million blocks.
t.test('PostgreSQL compares columns of which it has statistics', async (t) => {
  const latest = pageOf('updated_at', 'desc')
  const cases: [string, List, string[]][] = [
    [
      'messages',
      (reader) => listMessages(reader, 'acc_1', { statuses: ['sent'], stage: 'firm' }, latest),
      [`"stage" = 'firm'`, `"status" in ('sent')`],
    ],
    [
      'invoices',
      (reader) =>
        listInvoices(reader, 'acc_1', { status: ['paid'], currency: 'USD' }, '2026-11-21', latest),
      [`"status" in ('paid')`, `"currency" = 'USD'`],
    ],
    [
      'debtors',
      (reader) =>
        listDebtors(reader, 'acc_1', { q: 'de', status: 'archived' }, '2026-11-21', latest),
      [`"status" = 'archived'`, '"name_search" >= $'],
    ],
  ]
  for (const [name, list, conditions] of cases) {
    const [statement = '', ...others] = await statementsOf(list)
    t.strictSame(
      conditions.filter((condition) => !statement.includes(condition)),
      [],
      `${name}: ${statement}`,
    )
    t.strictSame(others, [], name)
  }
})

// Regression: PostgreSQL scanned most of an account, because it assumes that matches are spread evenly over the list.
t.test('PostgreSQL sorts the matches of a filter by time if these are few', async (t) => {
  const overdue: List = (reader) =>
    listInvoices(
      reader,
      'acc_1',
      { overdue: true, due_before: '2026-11-01' },
      '2026-11-21',
      pageOf('updated_at', 'desc'),
    )
  const dueLater: List = (reader) =>
    listInvoices(
      reader,
      'acc_1',
      { due_since: '2026-11-21' },
      '2026-11-21',
      pageOf('updated_at', 'asc'),
    )
  for (const list of [overdue, dueLater]) {
    const last = (await statementsOf(list)).at(-1) ?? ''
    t.ok(last.includes(`("updated_at" || '')`), last)
    t.notOk(last.includes(`("due_date" || '')`), last)
  }
  const [count = ''] = await statementsOf(overdue)
  t.ok(count.includes("status in ('open', 'partially_paid')"), 'only unpaid invoices are counted')
})
