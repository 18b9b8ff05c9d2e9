import fc from 'fast-check'
import t from 'tap'
import { stampOf } from '../../backend/database/stamp.ts'
import { type Books, openBooks } from '../fixtures/books/books.ts'
import type { Answer } from '../fixtures/service/backend.ts'

/** Every sequence runs, also on a busy machine. */
t.setTimeout(300_000)

/**
 * What the books must be after any sequence of calls, said as simply as it can be: the status of an
 * invoice follows from what was paid of it, and a key belongs to what it was first taken for.
 */
interface Model {
  readonly invoices: ModelInvoice[]
  readonly payments: ModelPayment[]
}

interface ModelInvoice {
  readonly id: string
  readonly amount: number
  due: number
  status: 'draft' | 'open' | 'partially_paid' | 'paid' | 'void' | 'written_off'
}

interface ModelPayment {
  readonly key: string
  readonly body: PaymentBody
  /** Of the first answer. */
  readonly text: string
  readonly unapplied: number
}

interface PaymentBody {
  readonly invoice_id: string
  readonly amount: number
  readonly currency: 'EUR'
  readonly allow_overpayment: boolean
}

interface Real {
  readonly books: Books
  readonly debtorId: string
  nextKey(): string
}

type Command = fc.AsyncCommand<Model, Real>

const PAYMENTS = '/api/v1/payments'
const NOT_PAYABLE = ['draft', 'void']

function must(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what)
}

/** What paying does to the model, or the code with which it is refused. */
function settle(invoice: ModelInvoice, body: PaymentBody): { unapplied: number } | string {
  if (NOT_PAYABLE.includes(invoice.status)) return 'invoice_not_payable'
  if (body.amount > invoice.due && !body.allow_overpayment) return 'payment_exceeds_balance'
  const applied = Math.min(body.amount, invoice.due)
  invoice.due -= applied
  if (applied > 0 && invoice.due === 0) invoice.status = 'paid'
  else if (applied > 0 && invoice.status !== 'written_off') invoice.status = 'partially_paid'
  return { unapplied: body.amount - applied }
}

async function agree({ books }: Real, invoice: ModelInvoice): Promise<void> {
  const shown = await books.read(`/api/v1/invoices/${invoice.id}`)
  const { status, amount, due } = invoice
  must(
    shown.status === status && shown.amount_due === due && shown.amount_paid === amount - due,
    `invoice is ${shown.status} with ${shown.amount_due} due, not ${status} with ${due}`,
  )
}

function pick<T>(items: readonly T[], place: number): T {
  const item = items[place % items.length]
  must(item !== undefined, 'nothing to pick from')
  return item
}

function send({ books }: Real, key: string, body: PaymentBody): Promise<Answer> {
  return books.post(PAYMENTS, body, { 'idempotency-key': key })
}

const isReplay = ({ headers }: Answer) => headers.get('idempotent-replayed') === 'true'

class CreateInvoice implements Command {
  readonly status: 'draft' | 'open'
  readonly amount: number
  constructor(status: 'draft' | 'open', amount: number) {
    this.status = status
    this.amount = amount
  }
  check() {
    return true
  }
  async run(model: Model, { books, debtorId }: Real) {
    const { status, amount } = this
    const { id } = await books.invoice({ debtor_id: debtorId, amount, status })
    model.invoices.push({ id, amount, due: amount, status })
  }
  toString() {
    return `invoice(${this.status}, ${this.amount})`
  }
}

/** As the pages will one day: the API cannot. */
class EndInvoice implements Command {
  readonly place: number
  readonly status: 'void' | 'written_off'
  constructor(place: number, status: 'void' | 'written_off') {
    this.place = place
    this.status = status
  }
  check({ invoices }: Model) {
    return invoices.length > 0 && pick(invoices, this.place).status === 'open'
  }
  async run(model: Model, { books }: Real) {
    const invoice = pick(model.invoices, this.place)
    invoice.status = this.status
    await books.backend.database.transaction((tx) =>
      tx
        .updateTable('invoices')
        .set({ status: this.status, ...stampOf(tx, books.backend.now.toISOString()) })
        .where('id', '=', invoice.id)
        .execute(),
    )
  }
  toString() {
    return `${this.status}(${this.place})`
  }
}

/** One call, or several at once with the same key. */
class Pay implements Command {
  readonly place: number
  readonly amount: number
  readonly allowOverpayment: boolean
  readonly callers: number
  constructor(place: number, amount: number, allowOverpayment: boolean, callers: number) {
    this.place = place
    this.amount = amount
    this.allowOverpayment = allowOverpayment
    this.callers = callers
  }
  check({ invoices }: Model) {
    return invoices.length > 0
  }
  async run(model: Model, real: Real) {
    const invoice = pick(model.invoices, this.place)
    const key = real.nextKey()
    const body: PaymentBody = {
      invoice_id: invoice.id,
      amount: this.amount,
      currency: 'EUR',
      allow_overpayment: this.allowOverpayment,
    }
    const expected = settle(invoice, body)
    const answers = await Promise.all(
      Array.from({ length: this.callers }, () => send(real, key, body)),
    )
    const [first] = answers
    must(first !== undefined, 'at least one caller')
    if (typeof expected === 'string') {
      const codes = answers.map(({ json }) => json['code'])
      must(
        codes.every((code) => code === expected),
        `${codes} instead of ${expected}`,
      )
    } else {
      must(
        answers.every(({ status, text }) => status === 201 && text === first.text),
        `answers differ: ${answers.map(({ status, text }) => `${status} ${text}`)}`,
      )
      must(answers.filter((answer) => !isReplay(answer)).length === 1, 'one is the original')
      must(first.json['unapplied_amount'] === expected.unapplied, 'what is left over')
      model.payments.push({ key, body, text: first.text, unapplied: expected.unapplied })
    }
    await agree(real, invoice)
  }
  toString() {
    const { place, amount, allowOverpayment, callers } = this
    return `pay(${place}, ${amount}, ${allowOverpayment ? 'surplus' : 'exact'}, ×${callers})`
  }
}

/** The same key again: with the same body a replay, with another a refusal. */
class Retry implements Command {
  readonly place: number
  readonly surcharge: number
  constructor(place: number, surcharge: number) {
    this.place = place
    this.surcharge = surcharge
  }
  check({ payments }: Model) {
    return payments.length > 0
  }
  async run(model: Model, real: Real) {
    const { key, body, text } = pick(model.payments, this.place)
    const answer = await send(real, key, { ...body, amount: body.amount + this.surcharge })
    if (this.surcharge === 0) {
      must(answer.status === 201 && answer.text === text && isReplay(answer), 'the same bytes')
    } else {
      const { code, original_payment_id: original } = answer.json
      must(code === 'idempotency_key_reused', `${answer.status} ${answer.text}`)
      must(original === JSON.parse(text).id, 'it names the payment')
    }
    const invoice = model.invoices.find(({ id }) => id === body.invoice_id)
    if (invoice !== undefined) await agree(real, invoice)
  }
  toString() {
    return `retry(${this.place}, +${this.surcharge})`
  }
}

/** All at once, each with a key of its own, for all that is due: one of them can be right. */
class PayInRace implements Command {
  readonly place: number
  readonly callers: number
  constructor(place: number, callers: number) {
    this.place = place
    this.callers = callers
  }
  check({ invoices }: Model) {
    if (invoices.length === 0) return false
    const { status, due } = pick(invoices, this.place)
    return due > 0 && !NOT_PAYABLE.includes(status)
  }
  async run(model: Model, real: Real) {
    const invoice = pick(model.invoices, this.place)
    const body: PaymentBody = {
      invoice_id: invoice.id,
      amount: invoice.due,
      currency: 'EUR',
      allow_overpayment: false,
    }
    settle(invoice, body)
    const keys = Array.from({ length: this.callers }, () => real.nextKey())
    const answers = await Promise.all(keys.map((key) => send(real, key, body)))
    const paid = answers.findIndex(({ status }) => status === 201)
    for (const [place, { status, json, text }] of answers.entries()) {
      if (place === paid) model.payments.push({ key: keys[place] ?? '', body, text, unapplied: 0 })
      else must(json['code'] === 'payment_exceeds_balance', `${status} ${text}`)
    }
    must(paid >= 0, 'one of them is right')
    await agree(real, invoice)
  }
  toString() {
    return `race(${this.place}, ×${this.callers})`
  }
}

const place = fc.nat(5)
const amount = fc.oneof(fc.integer({ min: 1, max: 5 }), fc.constantFrom(10, 999_999_999_998))
const commands = fc.commands<Model, Real, false>(
  [
    fc
      .tuple(fc.constantFrom('open' as const, 'open' as const, 'draft' as const), amount)
      .map(([status, amount]) => new CreateInvoice(status, amount)),
    fc
      .tuple(place, fc.constantFrom('void' as const, 'written_off' as const))
      .map(([place, status]) => new EndInvoice(place, status)),
    fc
      .tuple(place, amount, fc.boolean(), fc.constantFrom(1, 1, 3))
      .map(([place, amount, surplus, callers]) => new Pay(place, amount, surplus, callers)),
    fc.tuple(place, fc.constantFrom(0, 0, 1)).map(([place, more]) => new Retry(place, more)),
    fc.tuple(place, fc.integer({ min: 2, max: 4 })).map(([place, n]) => new PayInRace(place, n)),
  ],
  { maxCommands: 40, size: '+2' },
)

t.test(
  'after any sequence of calls the books are what a few lines of arithmetic say',
  async (t) => {
    const books = await openBooks(t)
    let keys = 0
    let recorded = 0
    await fc.assert(
      fc.asyncProperty(commands, async (commands) => {
        const { id: debtorId } = await books.debtor()
        const model: Model = { invoices: [], payments: [] }
        const real = { books, debtorId, nextKey: () => `model-${keys++}` }
        await new CreateInvoice('open', 10).run(model, real)
        await new CreateInvoice('open', 10).run(model, real)
        await fc.asyncModelRun(() => ({ model, real }), commands)
        for (const invoice of model.invoices) await agree(real, invoice)
        await agreeOnPayments(real, model)
        recorded += model.payments.length
      }),
      { numRuns: 40 },
    )
    t.comment({ recorded })
    t.ok(recorded > 0)
  },
)

async function agreeOnPayments({ books, debtorId }: Real, { payments }: Model): Promise<void> {
  const { data } = await books.read(`${PAYMENTS}?debtor_id=${debtorId}&limit=200`)
  const shown = data.map(({ idempotency_key }: { idempotency_key: string }) => idempotency_key)
  const expected = payments.map(({ key }) => key)
  must(shown.toSorted().join() === expected.toSorted().join(), `payments ${shown}`)
  const debtor = await books.read(`/api/v1/debtors/${debtorId}`)
  const unapplied = debtor.balances[0]?.unapplied ?? 0
  const sum = payments.reduce((total, payment) => total + payment.unapplied, 0)
  must(unapplied === sum, `${unapplied} unapplied instead of ${sum}`)
}
