// The lists of Settings: their filters and order, their totals, and their export as CSV.
import t, { type Test } from 'tap'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import {
  ADMIN,
  createUserIn,
  logIn,
  MEMBER,
  startSettings,
} from '../../fixtures/service/settings.ts'

async function startWithLists(t: Test) {
  const { backend, account } = await startSettings(t)
  const key = await backend.issueKey(account.id)
  let idempotencyKeys = 0
  const create = async (path: string, body: object): Promise<Json> => {
    idempotencyKeys++
    const headers = { 'idempotency-key': `list-${idempotencyKeys}` }
    const response = await backend.call(key, 'POST', `/api/v1/${path}`, { body, headers })
    if (response.status !== 201) throw new Error(response.text)
    return response.json
  }
  const ada = await logIn(backend, ADMIN)
  const readPage = async (path: string): Promise<Json> => {
    const response = await ada.get(`/settings/${path}`)
    t.equal(response.status, 200, response.text)
    return response.json
  }
  const readColumn = async (path: string, field: string): Promise<Json[]> =>
    (await readPage(path)).data.map((row: Json) => row[field])
  return {
    ...{ backend, ada, readColumn, readPage },
    /** Reads all pages of a list and returns the names in it. */
    async readPages(path: string, limit: number): Promise<Json[]> {
      const names: Json[] = []
      let page = await readPage(`${path}&limit=${limit}`)
      for (;;) {
        names.push(...page.data.map((row: Json) => row.name))
        if (!page.has_more) return names
        page = await readPage(`${path}&limit=${limit}&cursor=${page.next_cursor}`)
      }
    },
    createDebtor: (name: string, fields: object = {}) => create('debtors', { name, ...fields }),
    createInvoice: (debtor: Json, number: string, due_date: string, amount: number, fields = {}) =>
      create('invoices', {
        ...{ debtor_id: debtor.id, number, currency: 'EUR', amount },
        ...{ issue_date: '2026-01-01', due_date, ...fields },
      }),
    pay: (invoice: Json, amount: number, fields: object = {}) =>
      create('payments', { invoice_id: invoice.id, currency: invoice.currency, amount, ...fields }),
    csv: async (path: string) => {
      const response = await ada.get(`/settings/${path}`)
      matches(t, response.headers.get('content-type'), /^text\/csv/)
      return response.text.replace(/^\u{feff}/u, '').split('\r\n')
    },
  }
}

t.test(
  'customers are sorted by their oldest overdue invoice or, on request, by the amount owed',
  async (t) => {
    const { createDebtor, createInvoice, readColumn, readPages } = await startWithLists(t)
    const small = await createDebtor('Small and old')
    const large = await createDebtor('Large and new')
    await createDebtor('A. Nothing')
    await createDebtor('B. Nothing')
    await createInvoice(large, 'L-1', '2026-11-01', 90_000)
    await createInvoice(large, 'L-2', '2026-12-31', 5_000)
    await createInvoice(small, 'S-1', '2026-02-01', 100)
    await createInvoice(small, 'S-2', '2026-12-01', 1, { currency: 'USD' })
    const all = ['Small and old', 'Large and new', 'A. Nothing', 'B. Nothing']
    t.strictSame(await readColumn('customers', 'name'), all)
    for (const limit of [1, 2, 3]) t.strictSame(await readPages('customers?', limit), all)
    t.strictSame(await readPages('customers?q=nothing', 1), all.slice(2))
    t.strictSame(await readColumn('customers?sort=name', 'name'), [
      ...['A. Nothing', 'B. Nothing', 'Large and new', 'Small and old'],
    ])
    t.strictSame(await readColumn('customers?sort=-owes', 'name'), [
      'Large and new',
      'Small and old',
    ])
    t.strictSame(await readColumn('customers?sort=-owes&currency=USD', 'name'), ['Small and old'])
    t.strictSame(await readColumn('customers?view=owing', 'name'), all.slice(0, 2))
    t.strictSame(
      await readColumn('customers?q=L-1', 'name'),
      ['Large and new'],
      'a customer is found by the number of an invoice',
    )
  },
)

t.test(
  'the next page of customers is found although the last customer of this page has paid',
  async (t) => {
    // Regression: the list by amount owed and the results of a search began again, and the list by due date skipped the
    // other customers who owed money.
    for (const query of [
      'sort=-owes',
      'sort=due',
      'view=overdue',
      'q=owner',
      'q=owner&view=owing',
    ]) {
      const { createDebtor, createInvoice, pay, readPage } = await startWithLists(t)
      const invoices = new Map<string, Json>()
      for (const [name, due, amount] of [
        ['Owner A', '2026-02-01', 400],
        ['Owner B', '2026-03-01', 300],
        ['Owner C', '2026-04-01', 200],
        ['Owner D', '2026-05-01', 100],
      ] as const) {
        invoices.set(name, await createInvoice(await createDebtor(name), name, due, amount))
      }
      const path = `customers?${query}&limit=2`
      const first = await readPage(path)
      t.strictSame(
        first.data.map((row: Json) => row.name),
        ['Owner A', 'Owner B'],
        query,
      )
      await pay(invoices.get('Owner B') ?? {}, 300)
      const second = await readPage(`${path}&cursor=${first.next_cursor}`)
      t.strictSame(
        second.data.map((row: Json) => row.name),
        ['Owner C', 'Owner D'],
        query,
      )
    }
  },
)

t.test('a cursor of a list of customers in another order is rejected', async (t) => {
  const { ada, createDebtor, createInvoice } = await startWithLists(t)
  const debtor = await createDebtor('Owner')
  await createInvoice(debtor, 'A-1', '2026-02-01', 100)
  for (const [query, cursor] of [
    ['sort=-owes', debtor.id],
    ['sort=-owes', `2026-02-01_${debtor.id}`],
    ['sort=due', debtor.id],
    ['sort=due', `100_${debtor.id}`],
    ['sort=due', '2026-02-01_deb_none'],
    ['sort=name', 'deb_none'],
  ]) {
    matches(t, await ada.get(`/settings/customers?${query}&cursor=${cursor}`), {
      status: 400,
      json: { code: 'invalid_cursor' },
    })
  }
})

t.test('totals say which amounts archived customers owe', async (t) => {
  // Regression: the totals above the list of customers included customers that the list omits.
  const { ada, createDebtor, createInvoice } = await startWithLists(t)
  const gone = await createDebtor('Gone')
  await createInvoice(gone, 'G-1', '2026-02-01', 90_000)
  await createInvoice(await createDebtor('Here'), 'H-1', '2026-02-01', 100)
  const textOf = async (path: string) =>
    (await ada.page(path)).text.replace(/<[^>]*>/g, '').replace(/\s+/g, ' ')
  t.notMatch(await textOf('/settings/customers'), 'archived customers')
  const linksOf = async (path: string) =>
    (await ada.page(path)).text.match(/href="[^"]*">\d+ (open|overdue) invoices?</g)
  t.strictSame(await linksOf('/settings/customers'), [
    'href="/settings/invoices?view=unpaid">2 open invoices<',
    'href="/settings/invoices?view=overdue">2 overdue invoices<',
  ])
  t.equal((await ada.send('POST', `/settings/customers/${gone.id}/archive`)).status, 200)
  const customers = await textOf('/settings/customers')
  matches(t, customers, containing('1 open invoice · €1.00 1 overdue invoice · €1.00'))
  matches(t, customers, containing('Not counted: €900.00 owed by archived customers'))
  t.equal(await linksOf('/settings/customers'), null, 'no link, because that list shows 2 invoices')
  const home = await textOf('/settings')
  matches(t, home, containing('€901.00'))
  matches(t, home, containing('Includes €900.00 owed by archived customers.'))
  matches(t, (await ada.get('/settings')).json, {
    due: [
      {
        outstanding: { amount: 90_100, invoices: 2 },
        archived: { amount: 90_000, invoices: 1 },
        largest_debtors: [{ name: 'Here' }],
      },
    ],
  })
  matches(t, await textOf('/settings/invoices'), containing('2 invoices · €901.00'))
})

t.test('the empty lists say what the reader can do', async (t) => {
  // Regression: the pages told an Admin what an Admin can do, and the empty list of customers had totals of 0 invoices.
  const { ada, backend } = await startWithLists(t)
  const mia = await logIn(backend, MEMBER)
  for (const [path, add, member] of [
    ['customers', 'customers/new', 'An Admin can add or import customers.'],
    ['invoices?view=all', 'invoices/new', 'An Admin can enter or import invoices.'],
  ] as const) {
    const emptyOf = async (person: typeof ada) =>
      (await person.page(`/settings/${path}`)).text.split('<div class="card empty">')[1] ?? ''
    const forAdmin = await emptyOf(ada)
    matches(t, forAdmin, containing(`<a href="/settings/${add}">`))
    matches(t, forAdmin, containing('<a href="/settings/import">'))
    t.notMatch(forAdmin, 'An Admin')
    const forMember = await emptyOf(mia)
    matches(t, forMember, containing(member))
    t.notMatch(forMember, '/settings/import')
  }
  t.notMatch((await ada.page('/settings/customers')).text, '0 open invoices')
})

t.test('archived customers are listed only in their own view, in every sort order', async (t) => {
  // Regression: the list contained archived customers if it was sorted by the amount owed.
  const { ada, createDebtor, createInvoice, readColumn } = await startWithLists(t)
  const gone = await createDebtor('Gone')
  await createInvoice(gone, 'G-1', '2026-02-01', 90_000)
  await createInvoice(await createDebtor('Here'), 'H-1', '2026-02-01', 100)
  t.equal((await ada.send('POST', `/settings/customers/${gone.id}/archive`)).status, 200)
  for (const query of ['sort=due', 'sort=name', 'sort=-owes', 'view=owing&sort=-owes']) {
    t.strictSame(await readColumn(`customers?${query}`, 'name'), ['Here'], query)
  }
  t.strictSame(await readColumn('customers?view=archived', 'name'), ['Gone'])
})

t.test('the count of a search for customers covers only the selected view', async (t) => {
  // Regression: the page counted the matches before it applied the view.
  const { ada, createDebtor, createInvoice } = await startWithLists(t)
  await createInvoice(await createDebtor('Jansen Late'), 'L-1', '2026-02-01', 100)
  await createDebtor('Jansen Bouw')
  for (const [query, count] of [
    ['q=jansen', '2 customers found'],
    ['q=jansen&view=overdue', '1 customer found'],
    ['q=jansen&view=paused', '0 customers found'],
    ['q=jansen&limit=1', '2 customers found'],
  ] as const) {
    matches(t, (await ada.page(`/settings/customers?${query}`)).text, containing(count), query)
  }
})

t.test('a search for customers says that it has not read all matching invoices', async (t) => {
  // Regression: the search read 500 of the matching invoices, and gave the number of their customers as the total.
  const { ada, createDebtor, createInvoice } = await startWithLists(t)
  const many = await createDebtor('Many')
  for (let n = 100; n < 600; n++) await createInvoice(many, `L-${n}`, '2026-02-01', 100)
  const search = async () => (await ada.page('/settings/customers?q=L-')).text
  const hint = 'There may be more matching customers than are shown.'
  t.notMatch(await search(), hint)
  await createInvoice(await createDebtor('Last'), 'L-999', '2026-02-01', 100)
  matches(t, await search(), containing(hint))
})

t.test(
  'unpaid invoices are sorted by due date, and filtered by amount, date and currency',
  async (t) => {
    const { createDebtor, createInvoice, pay, readColumn, ada } = await startWithLists(t)
    const acme = await createDebtor('Acme')
    const first = await createInvoice(acme, 'A-1', '2026-03-01', 10_000)
    await createInvoice(acme, 'A-2', '2026-02-01', 123_450)
    await createInvoice(acme, 'A-3', '2027-01-01', 500, { currency: 'JPY' })
    const paid = await createInvoice(acme, 'A-4', '2026-01-15', 700)
    await pay(paid, 700)
    await pay(first, 2_500)
    const numbers = (query: string) => readColumn(`invoices?${query}`, 'number')
    t.strictSame(await numbers('view=unpaid'), ['A-2', 'A-1', 'A-3'])
    t.strictSame(await numbers('view=unpaid&sort=-due'), ['A-3', 'A-1', 'A-2'])
    t.strictSame(await numbers('view=overdue'), ['A-2', 'A-1'])
    t.strictSame(await numbers('view=paid'), ['A-4'])
    t.strictSame(await numbers('view=all&number=A-'), ['A-1', 'A-2', 'A-3', 'A-4'])
    t.strictSame(await numbers('view=unpaid&amount_min=1,234.50&amount_max=1234.50'), ['A-2'])
    t.strictSame(await numbers('view=unpaid&amount_min=1234,5&amount_max=1234,50'), ['A-2'])
    t.strictSame(
      await numbers('view=unpaid&amount_min=400&amount_max=600'),
      ['A-3'],
      'yen have no minor unit',
    )
    t.strictSame(await numbers('view=unpaid&due_since=2026-02-02&due_before=2026-03-02'), ['A-1'])
    t.strictSame(await numbers('view=unpaid&currency=JPY'), ['A-3'])
    for (const query of ['amount_min=much', 'due_since=2026-02-30', 'view=late', 'sort=name']) {
      t.equal((await ada.get(`/settings/invoices?${query}`)).status, 400, query)
    }
    const page = (await ada.page('/settings/invoices')).text
    matches(t, page, containing('3 invoices · <strong>'))
    matches(t, page, containing('€1,309.50'))
    matches(
      t,
      (await ada.page('/settings/invoices?view=overdue&number=A-1')).text,
      containing('1 invoice · '),
    )
  },
)

t.test('payments are found by reference, amount, date and status', async (t) => {
  const { createDebtor, createInvoice, pay, readColumn, ada } = await startWithLists(t)
  const acme = await createDebtor('Acme')
  const one = await createInvoice(acme, 'A-1', '2026-03-01', 10_000)
  const small = await pay(one, 100, { reference: 'BANK-1', received_on: '2026-11-01' })
  const large = await pay(one, 900, { reference: 'BANK-2', received_on: '2026-11-10' })
  await ada.send('POST', `/settings/payments/${small.id}/reverse`, { reason: 'It bounced' })
  const ids = (query: string) => readColumn(`payments?${query}`, 'id')
  t.strictSame(await ids(''), [large.id, small.id])
  t.strictSame(await ids('reference=BANK-2'), [large.id])
  t.strictSame(await ids('reference=BANK'), [small.id, large.id])
  const byReference = await ada.page('/settings/payments?reference=BANK')
  matches(t, byReference.text, containing('Payments, by reference'))
  t.strictSame(await ids('status=reversed'), [small.id])
  t.strictSame(await ids('amount_min=5'), [large.id])
  t.strictSame(await ids('received_until=2026-11-01'), [small.id])
  t.strictSame(await ids('received_since=2026-11-02'), [large.id])
})

t.test(
  'the sums of payments include reversed payments only if the list shows nothing else',
  async (t) => {
    const { ada, createDebtor, createInvoice, pay } = await startWithLists(t)
    const acme = await createDebtor('Acme')
    const summary = async (query = '') =>
      (await ada.page(`/settings/payments${query}`)).text
        .match(/<p class="summary">(.*?)<\/p>/)?.[1]
        ?.replace(/<[^>]*>/g, '')
    t.equal(await summary(), '0 payments')
    const euros = await createInvoice(acme, 'A-1', '2026-03-01', 10_000)
    const yen = await createInvoice(acme, 'A-2', '2026-03-01', 900, { currency: 'JPY' })
    await pay(euros, 1250)
    await pay(euros, 300)
    const wrong = await pay(yen, 900)
    t.equal(await summary(), '3 payments · €15.50 · ¥900')
    await ada.send('POST', `/settings/payments/${wrong.id}/reverse`, { reason: 'It bounced' })
    t.equal(await summary(), '3 payments · €15.50 · ¥0')
    t.equal(await summary('?status=recorded'), '2 payments · €15.50')
    t.equal(await summary('?status=reversed'), '1 payment · ¥900')
    t.equal(await summary('?amount_min=10'), '2 payments · €12.50 · ¥0')
  },
)

t.test(
  'the CSV of a list has the rows of the page, and no cell that a spreadsheet reads as a formula',
  async (t) => {
    const { createDebtor, createInvoice, pay, csv } = await startWithLists(t)
    const evil = await createDebtor('=HYPERLINK("https://x.example")', { external_id: '@C-1' })
    const one = await createInvoice(evil, 'E-1', '2026-11-01', 123_450)
    await createInvoice(evil, 'E-2', '2026-12-01', 5, { currency: 'KWD' })
    await pay(one, 23_450, { reference: '+31 6; =1+1;b=2', received_on: '2026-11-02' })
    const [head, ...lines] = await csv('invoices.csv?view=unpaid')
    t.equal(
      head,
      'Number,Customer,Status,Issued on,Due on,Days late,Currency,Amount,Paid,Credited,Due,External ID,ID,Customer number',
    )
    const name = `"'=HYPERLINK(""https://x.example"")"`
    t.strictSame(
      lines.map((line) => line.replace(/,inv_.*/, '')),
      [
        `E-1,${name},Partly paid,2026-01-01,2026-11-01,20,EUR,1234.50,234.50,0.00,1000.00,`,
        `E-2,${name},Open,2026-01-01,2026-12-01,0,KWD,0.005,0.000,0.000,0.005,`,
        '',
      ],
    )
    const customers = await csv('customers.csv')
    matches(t, customers[1], containing(`${name},'@C-1,`))
    matches(t, customers[1], containing('EUR,1000.00,1000.00,0.00,deb_'))
    matches(
      t,
      (await csv('payments.csv'))[1],
      containing(`'+31 6; '=1+1;b=2,Recorded,EUR,234.50,0.00`),
    )
  },
)

// Regression: a worker updates search terms and due amounts, and only the list itself waited for this worker.
t.test('a CSV and the choice of a customer contain changes of the last second', async (t) => {
  const { createDebtor, createInvoice, csv, ada } = await startWithLists(t)
  const globex = await createDebtor('Globex GmbH')
  await createInvoice(globex, 'G-1', '2026-11-01', 100)
  const [, line = ''] = await csv('customers.csv?view=owing')
  t.ok(line.startsWith('Globex GmbH,'))
  await createDebtor('Initech Ltd')
  const { text } = await ada.page('/settings/payments/new?q=initech')
  matches(t, text, containing('Initech Ltd'))
})

t.test('each download of a list is in the audit log', async (t) => {
  // Regression: a person could download the data of all customers without a trace.
  const { ada, csv } = await startWithLists(t)
  for (const name of ['customers', 'invoices', 'payments']) await csv(`${name}.csv`)
  const { json } = await ada.get('/settings/audit-log?limit=3')
  const download = { action: 'account.list_downloaded', actor: { label: ADMIN } }
  matches(t, json['data'], [
    { ...download, detail: { list: 'payments' } },
    { ...download, detail: { list: 'invoices' } },
    { ...download, detail: { list: 'customers' } },
  ])
  t.ok((await ada.page('/settings/audit-log')).text.includes('Downloaded a list'))
})

t.test(
  'one search finds customers, invoices and payments of the account, and none of another account',
  async (t) => {
    const { createDebtor, createInvoice, pay, ada, backend } = await startWithLists(t)
    const acme = await createDebtor('Acme Installaties', {
      address: { line1: 'x', city: 'Delft', country: 'NL' },
    })
    const one = await createInvoice(acme, 'A-1', '2026-03-01', 10_000)
    const paid = await pay(one, 100, { reference: 'A-1 part' })
    const search = async (q: string, by = ada) =>
      (await by.get(`/settings/search?q=${encodeURIComponent(q)}`)).json
    t.strictSame(await search('delft inst'), {
      ...{ object: 'search_results', customers: [acme.id], invoices: [], payments: [] },
      messages: [],
    })
    matches(t, await search('A-1'), { invoices: [one.id], payments: [paid.id] })
    matches(t, await ada.page('/settings/search?q=A-1'), {
      status: 200,
      text: containing('A-1 part'),
    })
    matches(t, await ada.page('/settings/search?q=zzz'), {
      text: containing('There are no results.'),
    })
    matches(t, await ada.page('/settings/search'), { status: 200 })
    const other = await backend.createAccount()
    await createUserIn(backend, other.id, 'eve@other.example', 'admin')
    const eve = await logIn(backend, 'eve@other.example')
    for (const q of ['A-1', 'delft inst']) {
      matches(t, await search(q, eve), { invoices: [], payments: [], customers: [], messages: [] })
    }
  },
)

t.test('a search takes percent signs and underscores as they are', async (t) => {
  const { createDebtor, createInvoice, pay, ada } = await startWithLists(t)
  const found: Record<string, Json> = {}
  for (const mark of ['%', '_', 'X']) {
    const debtor = await createDebtor(`Customer${mark}`, { external_id: `${mark}1` })
    const invoice = await createInvoice(debtor, `${mark}2`, '2026-03-01', 1000)
    found[mark] = { debtor, invoice, payment: await pay(invoice, 100, { reference: `${mark}3` }) }
  }
  const search = async (q: string) =>
    (await ada.get(`/settings/search?q=${encodeURIComponent(q)}`)).json
  for (const mark of ['%', '_']) {
    const { debtor, invoice, payment } = found[mark]
    const expected = { customers: [debtor.id], invoices: [invoice.id], payments: [payment.id] }
    matches(t, await search(mark), expected)
    matches(t, await search(`customer${mark}`), { customers: [debtor.id], invoices: [] })
    matches(t, await search(`${mark}2`), { customers: [], invoices: [invoice.id] })
  }
  matches(t, await search('%%'), { customers: [], invoices: [], payments: [] })
})

// Regression: in a new account the list said "No invoice matches", although no filter was set.
t.test(
  'an empty list says whether there are no invoices, or none that match the filters',
  async (t) => {
    const { ada, createInvoice, createDebtor } = await startWithLists(t)
    const words = async (query: string) =>
      /class="card empty"><p><strong>([^<]+)/.exec(
        (await ada.page(`/settings/invoices${query}`)).text,
      )?.[1]
    t.equal(await words(''), 'No invoice is unpaid.')
    t.equal(await words('?view=overdue'), 'No invoice is overdue.')
    t.equal(await words('?view=all'), 'There is no invoice yet.')
    t.equal(await words('?currency=USD'), 'No invoice matches the filters.')
    await createInvoice(await createDebtor('Globex'), 'A-1', '2026-01-31', 100)
    t.equal(await words('?number=B-1'), 'No invoice matches the filters.')
    t.equal(await words('?view=paid'), 'No invoice matches the filters.')
  },
)

// Regression: such a page said that no payment matches the filters, although its link “Next” led to matches.
t.test(
  'a page for which only a part of the payments was searched does not say that none matches',
  async (t) => {
    const { ada, backend, createInvoice, createDebtor, pay } = await startWithLists(t)
    const invoice = await createInvoice(await createDebtor('Globex'), 'A-1', '2026-01-31', 10_000)
    const { id } = await pay(invoice, 900)
    const payment = await backend.database.read
      .selectFrom('payments')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    // Ids that follow the id of the payment, so the payment with 9.00 is the last in the list.
    const copies = Array.from({ length: 5_100 }, (_, n) => ({
      ...{ ...payment, id: `pay_7ZZZZZZZZZZZZZZZZZZZZZ${10_000 + n}`, amount: 1 },
      ...{ external_id: null, idempotency_key: null },
    }))
    for (let at = 0; at < copies.length; at += 300) {
      await backend.database.transaction(async (tx) => {
        await tx
          .insertInto('payments')
          .values(copies.slice(at, at + 300))
          .execute()
      })
    }
    const first = (await ada.page('/settings/payments?amount_min=5')).text
    t.notMatch(first, containing('No payment matches the filters.'))
    matches(
      t,
      first,
      containing('0 matches on this page. Only a part of the list has been searched so far.'),
    )
    const next = /href="([^"]+)"[^>]*>Next/.exec(first)?.[1]?.replaceAll('&amp;', '&')
    matches(t, (await ada.page(next ?? '')).text, containing(id))
  },
)

// Regression: without any filter, both logs said that nothing matches the filters.
t.test('an empty log says whether it has no entries, or none that match the filters', async (t) => {
  const { ada } = await startWithLists(t)
  const words = async (path: string) =>
    /class="card empty"><p><strong>([^<]+)/.exec((await ada.page(path)).text)?.[1]
  t.equal(await words('/settings/messages'), 'There is no message yet.')
  t.equal(await words('/settings/messages?stage=firm'), 'No message matches the filters.')
  const deliveries = '/settings/webhook-deliveries'
  t.equal(await words(deliveries), 'No event was sent in the last 30 days.')
  t.equal(await words(`${deliveries}?status=failed`), 'No delivery matches the filters.')
})
