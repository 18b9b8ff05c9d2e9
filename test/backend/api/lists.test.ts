import t from 'tap'
import {
  type Json,
  openTestAccount,
  type TestAccount,
} from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'

const idsOf = (data: Json[]) => data.map(({ id }) => id)

/** Reads all pages, each with the cursor of the previous page. Resolves with all rows. */
async function readAllPages(testAccount: TestAccount, path: string): Promise<Json[]> {
  const rows: Json[] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const page: Json = await testAccount.read(`${path}${cursor && `&cursor=${cursor}`}`)
    rows.push(...page.data)
    cursor = page.next_cursor
  }
  return rows
}

async function openTestAccountWithDebtors(
  t: Parameters<typeof openTestAccount>[0],
  count: number,
): Promise<TestAccount> {
  const testAccount = await openTestAccount(t)
  for (let index = 0; index < count; index++) {
    // Debtors are created in pairs at the same time, so that only the ids determine the order in a pair.
    testAccount.backend.now = new Date(Date.UTC(2026, 10, 1, 0, 0, Math.floor(index / 2)))
    await testAccount.createDebtor({ name: `Debtor ${index}` })
  }
  return testAccount
}

t.test('an empty list has no next page', async (t) => {
  const testAccount = await openTestAccount(t)
  const response = await testAccount.get('/api/v1/debtors')
  t.strictSame(response.json, { object: 'list', data: [], has_more: false, next_cursor: null })
  t.equal(response.headers.get('link'), null)
})

t.test('the pages of a list contain each row exactly once, in either order', async (t) => {
  const testAccount = await openTestAccountWithDebtors(t, 7)
  const all = idsOf((await testAccount.read('/api/v1/debtors?sort=created_at')).data)
  t.strictSame(all, all.toSorted())
  for (const limit of [1, 2, 3, 6, 7, 8]) {
    const forward = await readAllPages(
      testAccount,
      `/api/v1/debtors?sort=created_at&limit=${limit}`,
    )
    t.strictSame(idsOf(forward), all, `limit ${limit}`)
    const backward = await readAllPages(testAccount, `/api/v1/debtors?limit=${limit}`)
    t.strictSame(idsOf(backward), all.toReversed(), `limit ${limit}, newest first`)
  }
})

t.test('a full last page has no next page', async (t) => {
  const testAccount = await openTestAccountWithDebtors(t, 2)
  matches(t, await testAccount.read('/api/v1/debtors?limit=2'), {
    has_more: false,
    next_cursor: null,
  })
  matches(t, await testAccount.read('/api/v1/debtors?limit=1'), {
    has_more: true,
    next_cursor: /^eyJ2Ijox/,
  })
})

t.test('rows that are created while a client reads pages do not shift the next page', async (t) => {
  const testAccount = await openTestAccountWithDebtors(t, 4)
  const first = await testAccount.read('/api/v1/debtors?limit=2')
  await testAccount.createDebtor({ name: 'New' })
  const second = await testAccount.read(`/api/v1/debtors?limit=2&cursor=${first.next_cursor}`)
  const names = [...first.data, ...second.data].map(({ name }) => name)
  t.strictSame(names, ['Debtor 3', 'Debtor 2', 'Debtor 1', 'Debtor 0'])
})

t.test('the link to the next page keeps filters, sort and limit', async (t) => {
  const testAccount = await openTestAccountWithDebtors(t, 5)
  const filters = 'q=Debtor+&status=active&sort=-updated_at&limit=2'
  let path: string | undefined = `/api/v1/debtors?${filters}`
  const names: string[] = []
  while (path !== undefined) {
    const response = await testAccount.get(path)
    names.push(...(response.json['data'] as Json[]).map(({ name }) => name))
    const [, url] = /^<(.+)>; rel="next"$/.exec(response.headers.get('link') ?? '') ?? []
    t.ok(url === undefined || url.startsWith(`${BASE_URL}/api/v1/debtors?cursor=`))
    path = url?.slice(BASE_URL.length)
  }
  t.strictSame(names, ['Debtor 4', 'Debtor 3', 'Debtor 2', 'Debtor 1', 'Debtor 0'])
})

t.test('the limit may change from page to page', async (t) => {
  const testAccount = await openTestAccountWithDebtors(t, 4)
  const { next_cursor } = await testAccount.read('/api/v1/debtors?limit=1')
  t.equal((await testAccount.read(`/api/v1/debtors?limit=3&cursor=${next_cursor}`)).data.length, 3)
})

t.test('a cursor is valid only for its account, list, sort and filters', async (t) => {
  const testAccount = await openTestAccountWithDebtors(t, 3)
  const { next_cursor: cursor } = await testAccount.read('/api/v1/debtors?limit=1&q=Debtor')
  t.equal((await testAccount.get(`/api/v1/debtors?q=Debtor&cursor=${cursor}`)).status, 200)
  t.equal((await testAccount.get(`/api/v1/debtors?q=DEBTOR&cursor=${cursor}`)).status, 400)
  const others = await testAccount.otherAccount()
  const rejected = [
    await testAccount.get(`/api/v1/debtors?cursor=${cursor}`),
    await testAccount.get(`/api/v1/debtors?q=Debtor&status=active&cursor=${cursor}`),
    await testAccount.get(`/api/v1/debtors?q=Debtor&sort=created_at&cursor=${cursor}`),
    await testAccount.get(`/api/v1/invoices?cursor=${cursor}`),
    await others.get(`/api/v1/debtors?q=Debtor&cursor=${cursor}`),
    await testAccount.get('/api/v1/debtors?cursor=garbage'),
    await testAccount.get('/api/v1/debtors?cursor='),
    await testAccount.get('/api/v1/debtors?cursor=%00'),
    await testAccount.get(`/api/v1/debtors?q=Debtor&cursor=${cursor}A`),
  ]
  for (const { status, json } of rejected) {
    t.equal(status, 400)
    matches(t, json, { code: 'invalid_cursor' })
  }
})

t.test('a page that is read in several portions contains each row exactly once', async (t) => {
  const testAccount = await openTestAccountWithDebtors(t, 120)
  const all = idsOf(await readAllPages(testAccount, '/api/v1/debtors?sort=created_at&limit=7'))
  t.equal(all.length, 120)
  for (const limit of [50, 51, 100, 119, 120, 200]) {
    const page = await testAccount.read(`/api/v1/debtors?sort=created_at&limit=${limit}`)
    t.strictSame(idsOf(page.data), all.slice(0, limit), `limit ${limit}`)
    t.equal(page.has_more, limit < 120)
    const pages = await readAllPages(testAccount, `/api/v1/debtors?limit=${limit}`)
    t.strictSame(idsOf(pages), all.toReversed(), `limit ${limit}, newest first`)
  }
})

t.test(
  'a page of very large objects ends at about 2 MB, and later pages have the other objects',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { id: debtor_id } = await testAccount.createDebtor()
    const line = { description: 'd'.repeat(500), quantity: '1', unit_amount: 100 }
    const line_items = Array.from({ length: 200 }, () => line)
    const ids: string[] = []
    for (let count = 0; count < 24; count++) {
      ids.push((await testAccount.createInvoice({ debtor_id, amount: undefined, line_items })).id)
    }
    const first = await testAccount.get('/api/v1/invoices?limit=200')
    t.ok(first.text.length < 2_500_000, `${first.text.length} characters`)
    matches(t, first.json, { has_more: true })
    t.ok(first.headers.get('link')?.includes('limit=200'))
    const pages = await readAllPages(testAccount, '/api/v1/invoices?limit=200')
    t.strictSame(idsOf(pages), ids.toReversed())
  },
)

t.test('invoices can also be sorted by due date', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id: debtor_id } = await testAccount.createDebtor()
  for (const due_date of ['2026-12-02', '2026-12-01', '2026-12-02', '2026-12-03']) {
    await testAccount.createInvoice({ debtor_id, due_date })
  }
  const dates = async (sort: string) =>
    (await readAllPages(testAccount, `/api/v1/invoices?limit=1&sort=${sort}`)).map(
      ({ due_date }) => due_date,
    )
  const ascending = ['2026-12-01', '2026-12-02', '2026-12-02', '2026-12-03']
  t.strictSame(await dates('due_date'), ascending)
  t.strictSame(await dates('-due_date'), ascending.toReversed())
})

t.test('updated_since and updated_before select the rows that changed in between', async (t) => {
  const testAccount = await openTestAccountWithDebtors(t, 3)
  const [first] = (await testAccount.read('/api/v1/debtors?sort=created_at')).data
  testAccount.backend.now = new Date('2026-11-21T00:00:00.000Z')
  await testAccount.createInvoice({ debtor_id: first.id })
  const query =
    'sort=updated_at&updated_since=2026-11-20T23:55:00Z&updated_before=2026-11-21T00:00:01Z'
  t.strictSame(idsOf((await testAccount.read(`/api/v1/debtors?${query}`)).data), [first.id])
})

t.test('created_since and created_before with microseconds are exact', async (t) => {
  // Regression: the times were rounded down, so `created_since` also returned objects that were created earlier.
  const testAccount = await openTestAccount(t)
  testAccount.backend.now = new Date('2026-11-21T00:00:00.600Z')
  const { id } = await testAccount.createDebtor()
  const list = async (query: string) =>
    idsOf((await testAccount.read(`/api/v1/debtors?${query}`)).data)
  t.strictSame(await list('created_since=2026-11-21T00:00:00.600000Z'), [id])
  t.strictSame(await list('created_since=2026-11-21T00:00:00.600001Z'), [])
  t.strictSame(await list('created_before=2026-11-21T00:00:00.600000Z'), [])
  t.strictSame(await list('created_before=2026-11-21T00:00:00.600001Z'), [id])
  t.strictSame(await list('created_before=9999-12-31T23:59:59.999999Z'), [id])
})

const idAt = (index: number) => `deb_${String(index).padStart(26, '0')}`
const at = (second: number) => new Date(Date.UTC(2026, 10, 1, 0, 0, second)).toISOString()
/** Later than any time at which a debtor was created: nothing changes before it exists. */
const updatedAt = (second: number) => at(10_000 + second)

/**
 * Inserts debtors that are updated in the reverse order of their creation. The debtors that were updated first are
 * therefore the last ones in the order of creation.
 */
async function insertDebtors(
  { backend, accountId, createDebtor }: TestAccount,
  count: number,
): Promise<void> {
  const { id } = await createDebtor({ name: 'Original' })
  const [original] = await backend.database.read
    .selectFrom('debtors')
    .selectAll()
    .where('id', '=', id)
    .execute()
  const rows = Array.from({ length: count }, (_, index) => ({
    ...(original as NonNullable<typeof original>),
    account_id: accountId,
    id: idAt(index),
    // Debtors are created in pairs at the same time.
    created_at: at(Math.floor(index / 2)),
    updated_at: updatedAt(count - index),
  }))
  await backend.database.transaction(async (tx) => {
    await tx.deleteFrom('debtors').where('id', '=', id).execute()
    for (let first = 0; first < count; first += 200) {
      await tx
        .insertInto('debtors')
        .values(rows.slice(first, first + 200))
        .execute()
    }
  })
}

t.test(
  'filtering by one time finds all matching rows, even if the list is sorted by another',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const count = 6_000
    await insertDebtors(testAccount, count)
    // `close` and `distant` describe how far the matches are from the beginning of the list.
    const cases = [
      ['none', 'created_at', 'updated_since=2026-11-02T00:00:00Z', []],
      ['few, close', '-created_at', `updated_before=${updatedAt(4)}`, [5999, 5998, 5997]],
      ['few, distant', 'created_at', `updated_before=${updatedAt(4)}`, [5997, 5998, 5999]],
      ['few, distant, newest first', '-created_at', `updated_since=${updatedAt(5998)}`, [2, 1, 0]],
      [
        'filtered by both times',
        'created_at',
        `updated_since=${updatedAt(2)}&created_since=${at(2999)}`,
        [5998],
      ],
      [
        'sorted by the time of the update',
        '-updated_at',
        `created_since=${at(2999)}`,
        [5998, 5999],
      ],
    ] as const
    for (const [name, sort, filter, indexes] of cases) {
      const rows = await readAllPages(testAccount, `/api/v1/debtors?limit=2&sort=${sort}&${filter}`)
      t.strictSame(idsOf(rows), indexes.map(idAt), name)
    }
    const half = await readAllPages(
      testAccount,
      `/api/v1/debtors?limit=200&updated_since=${updatedAt(3001)}`,
    )
    t.strictSame(
      idsOf(half),
      Array.from({ length: 3_000 }, (_, index) => idAt(2_999 - index)),
      'many, beginning in the middle of the list',
    )
    const last = `/api/v1/debtors?limit=3&sort=created_at&updated_before=${updatedAt(count - 998)}`
    t.strictSame(
      idsOf((await testAccount.read(last)).data),
      [999, 1000, 1001].map(idAt),
      'many, beginning with the last row of the first scan',
    )
  },
)

t.test('the rejection of an invalid parameter names the parameter', async (t) => {
  const testAccount = await openTestAccount(t)
  const cases = [
    ['debtors?limit=0', 'limit'],
    ['debtors?limit=201', 'limit'],
    ['debtors?limit=', 'limit'],
    ['debtors?limit=1e1', 'limit'],
    ['debtors?limit=+5', 'limit'],
    ['debtors?sort=name', 'sort'],
    ['debtors?sort=due_date', 'sort'],
    ['debtors?limit=5&limit=5', 'limit'],
    ['debtors?status=', 'status'],
    ['debtors?status=gone', 'status'],
    ['debtors?created_since=2026-11-21', 'created_since'],
    ['debtors?created_since=2026-11-21T00:00:00+01:00', 'created_since'],
    ['debtors?q=%ff', 'q'],
    ['debtors?q=%zz', 'q'],
    ['debtors?q=%00', 'q'],
    ['invoices?status=open,open', 'status'],
    ['invoices?status=open,', 'status'],
    ['invoices?overdue=1', 'overdue'],
    ['invoices?overdue=toString', 'overdue'],
    ['invoices?due_since=2026-02-30', 'due_since'],
    ['invoices?currency=EURO', 'currency'],
    ['payments?received_since=yesterday', 'received_since'],
    ['messages?channel=fax', 'channel'],
    ['messages?stage=harsh', 'stage'],
  ] as const
  for (const [path, parameter] of cases) {
    const { status, json } = await testAccount.get(`/api/v1/${path}`)
    t.equal(status, 400, path)
    matches(t, json, { code: 'invalid_query_parameter', parameter }, path)
  }
})

t.test('reads and writes reject unknown parameters, and name them', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id } = await testAccount.createDebtor()
  const paths = ['me', 'debtors', `debtors/${id}`, 'debtors/x', 'invoices', 'payments', 'messages']
  for (const path of paths) {
    for (const parameter of ['ovrdue', '__proto__', 'Limit']) {
      const { status, json } = await testAccount.get(`/api/v1/${path}?${parameter}=1`)
      t.equal(status, 400, path)
      matches(t, json, { code: 'unknown_query_parameter', parameter })
    }
  }
  const post = await testAccount.post('/api/v1/debtors?limit=5', { name: 'a' })
  matches(t, post.json, { code: 'unknown_query_parameter', parameter: 'limit' })
})

// Regression: a long name was cut inside an emoji, so that the response contained half of it, a lone surrogate.
t.test('the name of an unknown parameter is shortened to well-formed text', async (t) => {
  const testAccount = await openTestAccount(t)
  const beginning = 'x'.repeat(63)
  const { json } = await testAccount.get(
    `/api/v1/debtors?${encodeURIComponent(`${beginning}😀`)}=1`,
  )
  matches(t, json, {
    code: 'unknown_query_parameter',
    parameter: `${beginning}\ufffd`,
    detail: containing(`${beginning}\ufffd`),
  })
})
