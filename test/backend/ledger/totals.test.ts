// The stored totals of an account equal the sums of its invoices and payments.
import { sql } from 'kysely'
import t from 'tap'
import type { ActionContext } from '../../../backend/accounts/audit.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { addDays } from '../../../backend/calendar/calendar.ts'
import { backfillStatement } from '../../../backend/database/migrating/steps.ts'
import * as foldedSearchTerms from '../../../backend/database/migrations/0042-folded-search-terms.ts'
import { UNFOLDED_TERM } from '../../../backend/database/migrations/0045-unfolded-search-terms.ts'
import { nextRevision } from '../../../backend/database/revision.ts'
import { archiveDebtor } from '../../../backend/debtors/chasing.ts'
import {
  countUnreachableDebtorsOwing,
  listLargestDebtors,
  readDueByAge,
} from '../../../backend/debtors/due-totals.ts'
import { findDebtorsByWords } from '../../../backend/debtors/find-debtors.ts'
import { updateAccountTotals, updateAllTotals } from '../../../backend/debtors/ledger-totals.ts'
import { finalizeInvoice, voidInvoice, writeOffInvoice } from '../../../backend/invoices/actions.ts'
import { reversePayment } from '../../../backend/payments/reversal.ts'
import { createId } from '../../../shared/contract/id.ts'
import { openTestAccount, type TestAccount } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'

const TODAY = '2026-11-21'
const NOTHING_DUE = { amount: 0, invoices: 0 }

const createInvoice = (
  testAccount: TestAccount,
  debtor_id: string,
  due_date: string,
  amount: number,
  more = {},
) => testAccount.createInvoice({ debtor_id, issue_date: '2026-01-01', due_date, amount, ...more })

t.test('the amounts due by age reflect every change of an invoice', async (t) => {
  const testAccount = await openTestAccount(t)
  const { database } = testAccount.backend
  const actionContext: ActionContext = { actor: OPERATOR, now: testAccount.backend.now }
  const { accountId } = testAccount
  const ages = async () => {
    await updateAllTotals(database)
    return readDueByAge(database.read, accountId, TODAY)
  }
  t.strictSame(await ages(), [])
  const { id: debtor } = await testAccount.createDebtor({ email: 'ap@x.example' })
  await createInvoice(testAccount, debtor, TODAY, 1)
  const late = await createInvoice(testAccount, debtor, '2026-11-20', 20)
  await createInvoice(testAccount, debtor, '2026-10-22', 300)
  await createInvoice(testAccount, debtor, '2026-10-21', 4_000)
  await createInvoice(testAccount, debtor, '2026-09-21', 50_000)
  const oldest = await createInvoice(testAccount, debtor, '2026-08-22', 600_000)
  await createInvoice(testAccount, debtor, '2026-03-01', 7, { currency: 'JPY' })
  const draft = await createInvoice(testAccount, debtor, '2026-11-30', 80, { status: 'draft' })
  const total = (amount: number, invoices: number) => ({ amount, invoices })
  const yen = {
    currency: 'JPY',
    outstanding: total(7, 1),
    overdue: total(7, 1),
    ages: [NOTHING_DUE, NOTHING_DUE, NOTHING_DUE, NOTHING_DUE, total(7, 1)],
  }
  const euro = {
    currency: 'EUR',
    outstanding: total(654_321, 6),
    overdue: total(654_320, 5),
    ages: [total(1, 1), total(320, 2), total(4_000, 1), total(50_000, 1), total(600_000, 1)],
  }
  t.strictSame(await ages(), [euro, yen])

  const payment = await testAccount.create('/api/v1/payments', {
    ...{ invoice_id: oldest.id, amount: 100_000, currency: 'EUR', method: 'cash' },
  })
  await testAccount.create('/api/v1/payments', {
    ...{ invoice_id: late.id, amount: 20, currency: 'EUR', method: 'cash' },
  })
  const [first] = await ages()
  t.strictSame(first?.ages, [
    total(1, 1),
    total(300, 1),
    total(4_000, 1),
    total(50_000, 1),
    total(500_000, 1),
  ])
  await database.transaction(async (tx) => {
    await reversePayment(tx, accountId, payment.id, 'It bounced', actionContext)
    await finalizeInvoice(tx, accountId, draft.id, actionContext)
    await voidInvoice(tx, accountId, draft.id, 'Sent twice', actionContext)
    await writeOffInvoice(tx, accountId, oldest.id, 'Bankrupt', actionContext)
  })
  const [last] = await ages()
  t.strictSame(last?.outstanding, total(54_301, 4))
  t.strictSame(last?.ages.at(-1), NOTHING_DUE)
  const rows = await database.read.selectFrom('ledger_changes').selectAll().execute()
  t.strictSame(rows, [], 'all changes are processed')
})

t.test(
  'the largest debtors are listed, and unreachable debtors that owe money are counted',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { accountId, backend } = testAccount
    const { database } = backend
    const ids: string[] = []
    for (const [name, email, amount] of [
      ['Small', 'a@x.example', 10],
      ['Large', null, 500],
      ['Middle', null, 200],
      ['Nothing', null, 0],
    ] as const) {
      const debtor = await testAccount.createDebtor({ name, email })
      ids.push(debtor.id)
      if (amount > 0) await createInvoice(testAccount, debtor.id, '2026-11-01', amount)
    }
    const [, large, middle] = ids
    await updateAccountTotals(database, accountId)
    t.strictSame(
      (await listLargestDebtors(database.read, accountId, 'EUR', 2)).map((row) => row.debtorId),
      [large, middle],
    )
    t.equal(await countUnreachableDebtorsOwing(database.read, accountId, 10), 2)
    t.equal(await countUnreachableDebtorsOwing(database.read, accountId, 1), 1)
    const actionContext = { actor: OPERATOR, now: backend.now }
    await database.transaction((tx) => archiveDebtor(tx, accountId, String(large), actionContext))
    await updateAccountTotals(database, accountId)
    t.equal(await countUnreachableDebtorsOwing(database.read, accountId, 10), 1)
    const others = await testAccount.otherAccount()
    t.strictSame(await listLargestDebtors(database.read, others.accountId, 'EUR', 5), [])
  },
)

t.test(
  'a debtor is found by words of its name, city, e-mail address and external id',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { accountId, backend } = testAccount
    const { database } = backend
    const { id } = await testAccount.createDebtor({
      ...{ name: 'Jansen & O’Brien Bouw B.V.', email: 'Facturen@jansen.example' },
      ...{ external_id: 'C-1002', address: { line1: 'Gracht 1', city: 'Den Haag', country: 'NL' } },
    })
    await testAccount.createDebtor({ name: 'Jansen Installaties' })
    const others = await testAccount.otherAccount()
    await updateAllTotals(database)
    const find = async (text: string) =>
      (await findDebtorsByWords(database.read, accountId, text, 10)).ids
    for (const text of [
      ...['bouw', 'JANSEN bou', 'o’brien', 'brien', 'c-1002', 'C-10', 'haag', 'den haag'],
      ...['facturen@jansen', 'jansen haag'],
    ]) {
      t.strictSame(await find(text), [id], text)
    }
    t.equal((await find('jansen')).length, 2)
    t.strictSame(await find('jansen utrecht'), [])
    t.strictSame(await find('%'), [])
    const truncated = await findDebtorsByWords(database.read, accountId, 'jansen', 1)
    t.strictSame([truncated.ids.length, truncated.isTruncated], [1, true])
    t.strictSame((await findDebtorsByWords(database.read, others.accountId, 'bouw', 9)).ids, [])
  },
)

// Regression: a search in capitals, or for a text with an invisible character, did not find these debtors.
t.test(
  'a search folds letters that have several forms, and ignores invisible characters',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { accountId, backend } = testAccount
    const { database } = backend
    const idOf = async (fields: object) => (await testAccount.createDebtor(fields)).id
    const street = await idOf({ name: 'Straßenbau Groß' })
    const capital = await idOf({ name: 'STRASSENBAHN' })
    const turkish = await idOf({ name: 'İstanbul Işık' })
    const invisible = await idOf({ name: 'Glo\u200bbex\u00ad', external_id: 'C-7' })
    const unchanged = await idOf({ name: 'Initech' })
    const find = async (text: string) =>
      (await findDebtorsByWords(database.read, accountId, text, 10)).ids.toSorted()
    const findsAll = async () => {
      for (const text of ['straße', 'STRASSE', 'Straẞe', 'strassenb', 'straß']) {
        t.strictSame(await find(text), [street, capital].toSorted(), text)
      }
      t.strictSame(await find('gross'), [street])
      for (const text of ['istanbul', 'İSTANBUL', 'Istanbul', 'IŞIK']) {
        t.strictSame(await find(text), [turkish], text)
      }
      for (const text of ['globex', 'glo\u200bbex', 'Glo\ufeffbex', '\u2060C-7']) {
        t.strictSame(await find(text), [invisible], text)
      }
      t.strictSame(await find('\u200b'), [])
    }
    await updateAllTotals(database)
    await findsAll()

    const oldTerms = {
      [street]: 'straßenbau',
      [turkish]: 'i̇stanbul',
      [invisible]: 'glo\u200bbex\u00ad',
    }
    const storeAsPreviousVersion = () =>
      database.transaction(async (tx) => {
        const ids = Object.keys(oldTerms)
        await tx.deleteFrom('debtor_terms').where('debtor_id', 'in', ids).execute()
        const rows = Object.entries(oldTerms).map(([debtor_id, term]) => ({ debtor_id, term }))
        await tx
          .insertInto('debtor_terms')
          .values(rows.map((row) => ({ ...row, account_id: accountId })))
          .execute()
      })
    await storeAsPreviousVersion()
    t.strictSame(
      await find('Straße'),
      [street, capital].toSorted(),
      'terms of the previous version are found as before',
    )
    const [step] = foldedSearchTerms.steps
    if (step === undefined) throw new Error('the migration has no step')
    await database.transaction((tx) => sql.raw(backfillStatement(step)).execute(tx))
    const logged = await database.read.selectFrom('ledger_changes').select('debtor_id').execute()
    t.notOk(logged.some(({ debtor_id }) => debtor_id === unchanged))
    await updateAllTotals(database)
    await findsAll()

    // Regression: during an upgrade, the worker of the previous version processed what the migration had logged. The
    // old terms then remained.
    await storeAsPreviousVersion()
    await updateAllTotals(database)
    await findsAll()
  },
)

// A name whose terms would still look unfolded would be computed again in each round.
t.test('terms that were folded once are not computed again', async (t) => {
  const testAccount = await openTestAccount(t)
  const { database } = testAccount.backend
  const names = ['I\u0307\u0307', 'ı\u0307', 'i\u00ad\u0307', 'Straẞe\u200bß', 'İı']
  for (const name of names) await testAccount.createDebtor({ name })
  await updateAllTotals(database)
  const unfolded = await database.read
    .selectFrom('debtor_terms')
    .select('term')
    .where(sql<boolean>`${sql.raw(UNFOLDED_TERM)}`)
    .execute()
  t.strictSame(unfolded, [])
})

t.test('one update processes all changes of a debtor', async (t) => {
  const testAccount = await openTestAccount(t)
  const { database } = testAccount.backend
  const { id } = await testAccount.createDebtor()
  await createInvoice(testAccount, id, TODAY, 500)
  const change = { account_id: testAccount.accountId, debtor_id: id }
  await database.transaction((tx) =>
    tx
      .insertInto('ledger_changes')
      .values(Array.from({ length: 150 }, () => change))
      .execute(),
  )
  await updateAccountTotals(database, testAccount.accountId)
  const logged = await database.read.selectFrom('ledger_changes').select('debtor_id').execute()
  t.strictSame(logged, [], 'no change remains')
  const [due] = await readDueByAge(database.read, testAccount.accountId, TODAY)
  t.equal(due?.outstanding.amount, 500)
})

t.test('sums that no number represents exactly are capped', async (t) => {
  // Regression: on PostgreSQL, reading such a sum failed: each list that contained the debtor was rejected with 500,
  // and the totals of all accounts were no longer computed.
  const testAccount = await openTestAccount(t)
  const { database } = testAccount.backend
  const { accountId } = testAccount
  const { id: debtor_id } = await testAccount.createDebtor({ name: 'Globex' })
  for (const due_date of [TODAY, '2026-11-20', '2026-11-20']) {
    await createInvoice(testAccount, debtor_id, due_date, 1)
    await testAccount.create('/api/v1/payments', { debtor_id, currency: 'EUR', amount: 1 })
  }
  // With smaller amounts, the test would need thousands of invoices and payments.
  const amount = Number.MAX_SAFE_INTEGER
  const change = testAccount.backend.now.toISOString()
  await database.transaction(async (tx) => {
    const raised = { amount, ...nextRevision(tx, change) }
    await tx
      .updateTable('invoices')
      .set({ ...raised, amount_due: amount })
      .execute()
    await tx
      .updateTable('payments')
      .set({ ...raised, unapplied_amount: amount })
      .execute()
  })
  const balances = [
    {
      currency: 'EUR',
      currency_exponent: 2,
      outstanding: amount,
      overdue: amount,
      unapplied: amount,
    },
  ]
  matches(t, await testAccount.read(`/api/v1/debtors/${debtor_id}`), { balances })
  matches(t, await testAccount.read('/api/v1/debtors'), { data: [{ balances }] })
  await updateAllTotals(database)
  const [due] = await readDueByAge(database.read, accountId, TODAY)
  t.strictSame(due?.outstanding, { amount, invoices: 3 })
  const largest = await listLargestDebtors(database.read, accountId, 'EUR', 5)
  t.strictSame(largest, [{ debtorId: debtor_id, outstanding: amount }])

  const remaining = await createInvoice(testAccount, debtor_id, '2026-11-20', 7)
  await database.transaction(async (tx) => {
    await tx
      .updateTable('invoices')
      .set({ status: 'written_off', written_off_at: change, ...nextRevision(tx, change) })
      .where('id', '<>', remaining.id)
      .execute()
  })
  await updateAllTotals(database)
  const [reduced] = await readDueByAge(database.read, accountId, TODAY)
  t.strictSame(reduced?.outstanding, { amount: 7, invoices: 1 })
})

// Regression: SQLite rejected the batch, because one statement had too many parameters. No totals were computed
// anymore.
t.test('a batch of debtors may have thousands of due dates', async (t) => {
  const testAccount = await openTestAccount(t)
  const { database } = testAccount.backend
  const { accountId } = testAccount
  const { id: first } = await testAccount.createDebtor()
  await createInvoice(testAccount, first, TODAY, 1)
  await database.transaction(async (tx) => {
    const debtor = await tx.selectFrom('debtors').selectAll().executeTakeFirstOrThrow()
    const invoice = await tx.selectFrom('invoices').selectAll().executeTakeFirstOrThrow()
    const numbers = Array.from({ length: 90 }, (_, n) => n)
    const debtorIds = numbers.map(() => createId('deb'))
    for (const [n, id] of debtorIds.entries()) {
      await tx
        .insertInto('debtors')
        .values({ ...debtor, id })
        .execute()
      const rows = numbers.map((at) => ({
        ...{ ...invoice, id: createId('inv'), debtor_id: id, number: `${n}/${at}` },
        due_date: addDays(TODAY, 100 * n + at),
      }))
      await tx.insertInto('invoices').values(rows).execute()
    }
    // The migration, too, logs each debtor once.
    await tx.deleteFrom('ledger_changes').execute()
    const changes = debtorIds.map((debtor_id) => ({ account_id: accountId, debtor_id }))
    await tx.insertInto('ledger_changes').values(changes).execute()
  })
  await updateAllTotals(database)
  const [due] = await readDueByAge(database.read, accountId, TODAY)
  t.equal(due?.outstanding.invoices, 8100)
})
