// How SQLite reads pages of lists. Its plan does not depend on the rows, because it has no statistics.
import { join } from 'node:path'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import type { Reader } from '../../../backend/database/database.ts'
import { type InvoiceFilters, listInvoices } from '../../../backend/invoices/invoice-list.ts'
import type { Page } from '../../../backend/lists/keyset.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'

interface Step {
  readonly detail: string
}

/** Resolves with a function that resolves with the steps of SQLite's plans for a page of invoices. */
async function openPlanner(t: Test) {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const { read, transaction } = await openTestDatabase(t, { url })
  return async (filters: InvoiceFilters, page: Page): Promise<string[]> => {
    const steps: string[] = []
    const planner: Reader = {
      selectFrom: read.selectFrom.bind(read),
      fn: read.fn,
      dynamic: read.dynamic,
      getExecutor: () => read.getExecutor(),
      async executeQuery(query) {
        const { sql: text, parameters } = 'compile' in query ? query.compile() : query
        const [first = '', ...others] = text.split(/\?\d+/)
        const rest = others.map((part, at) => sql`${parameters[at]}${sql.raw(part)}`)
        const explain = sql<Step>`explain query plan ${sql.raw(first)}${sql.join(rest, sql``)}`
        const { rows } = await transaction((tx) => explain.execute(tx))
        steps.push(...rows.map(({ detail }) => detail))
        return { rows: [] }
      },
    }
    await listInvoices(planner, 'acc_1', filters, '2026-11-21', page)
    return steps
  }
}

// Regression: SQLite began at the limit of the filter, so the time of a page grew with the number of pages before it.
t.test('a page begins at its cursor even if a filter limits the sort column too', async (t) => {
  const planOf = await openPlanner(t)
  const at = '2026-11-01T00:00:00.000Z'
  const after = { value: '2026-11-02T00:00:00.000Z', id: 'inv_1' }
  for (const sort of ['created_at', 'updated_at']) {
    const ascending: Page = { sort, direction: 'asc', fetch: 51, after }
    const upward = await planOf({ [sort.replace(/at$/, 'since')]: at }, ascending)
    t.ok(upward.join().includes(`(account_id=? AND (${sort},id)>(?,?))`), `${sort}, ascending`)
    const descending: Page = { ...ascending, direction: 'desc' }
    const downward = await planOf({ [sort.replace(/at$/, 'before')]: at }, descending)
    t.ok(downward.join().includes(`(account_id=? AND (${sort},id)<(?,?))`), `${sort}, descending`)
  }
  const latest: Page = { sort: 'due_date', direction: 'desc', fetch: 51, after }
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
    [{ overdue: true, created_since: at }, 'updated_at', 'invoices_by_creation (account_id=?'],
  ]
  for (const [filters, sort, index] of cases) {
    // An empty account has only few matches of each filter.
    const steps = await planOf(filters, { sort, direction: 'desc', fetch: 51, after: undefined })
    const found = steps.filter((step) => step.includes('invoices USING INDEX invoices_'))
    t.strictSame(
      found.filter((step) => !step.includes(index)),
      [],
      JSON.stringify([filters, sort]),
    )
    t.ok(found.length > 0)
  }
})
