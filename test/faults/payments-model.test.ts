import fc from 'fast-check'
import t from 'tap'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { voidInvoice, writeOffInvoice } from '../../backend/invoices/acts.ts'
import { creditInvoice } from '../../backend/invoices/credit-invoice.ts'
import { allocatePayment, takeBackAllocation } from '../../backend/payments/reallocation.ts'
import { reversePayment } from '../../backend/payments/reversal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { type Books, openBooks } from '../fixtures/books/books.ts'
import type { Response } from '../fixtures/service/backend.ts'

/** Thousands by hand: `PAYMENT_RUNS=5000 npx tap -t 0 test/faults/payments-model.test.ts`. */
const RUNS = Number(process.env['PAYMENT_RUNS'] ?? 40)

/** Every sequence runs, also on a busy machine. */
t.setTimeout(RUNS > 40 ? 0 : 300_000)

/**
 * What the books must be after any sequence of calls, said as simply as it can be: the status of an
 * invoice follows from what was paid and credited of it, and a key belongs to what it was first taken for.
 */
interface Model {
  readonly invoices: ModelInvoice[]
  readonly payments: ModelPayment[]
}

interface ModelInvoice {
  readonly id: string
  readonly amount: number
  credited: number
  revision: number
  /** What people decided; the money says the rest. */
  state: 'draft' | 'open' | 'void' | 'written_off'
}

interface ModelPayment {
  readonly id: string
  readonly key: string
  readonly body: PaymentBody
  /** Of the first answer. */
  readonly text: string
  /** By the invoice's id. */
  readonly allocated: Map<string, number>
  reversed: boolean
  revision: number
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
  /** What each object last showed, by its id. */
  readonly seen: Map<string, Stamped>
  nextKey(): string
}

interface Stamped {
  readonly id: string
  readonly revision: number
  readonly updated_at: string
}

type Command = fc.AsyncCommand<Model, Real>

const PAYMENTS = '/api/v1/payments'
const NOT_PAYABLE = ['draft', 'void']

function must(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what)
}

function sumOf(amounts: Iterable<number>): number {
  return [...amounts].reduce((total, amount) => total + amount, 0)
}

function paidOf({ payments }: Model, { id }: ModelInvoice): number {
  const counted = payments.filter(({ reversed }) => !reversed)
  return sumOf(counted.map(({ allocated }) => allocated.get(id) ?? 0))
}

function dueOf(model: Model, invoice: ModelInvoice): number {
  return invoice.amount - invoice.credited - paidOf(model, invoice)
}

function statusOf(model: Model, invoice: ModelInvoice): string {
  const { state } = invoice
  if (NOT_PAYABLE.includes(state)) return state
  if (dueOf(model, invoice) === 0) return 'paid'
  return state === 'open' && paidOf(model, invoice) > 0 ? 'partially_paid' : state
}

function unappliedOf({ reversed, body, allocated }: ModelPayment): number {
  return reversed ? 0 : body.amount - sumOf(allocated.values())
}

/** How much of it goes to the invoice, or the code with which it is refused. */
function settle(model: Model, invoice: ModelInvoice, body: PaymentBody): number | string {
  if (NOT_PAYABLE.includes(invoice.state)) return 'invoice_not_payable'
  const due = dueOf(model, invoice)
  if (body.amount > due && !body.allow_overpayment) return 'payment_exceeds_balance'
  return Math.min(body.amount, due)
}

function note(
  model: Model,
  invoice: ModelInvoice,
  applied: number,
  recorded: Pick<ModelPayment, 'key' | 'body' | 'text'>,
): void {
  const allocated = new Map(applied > 0 ? [[invoice.id, applied]] : [])
  const { id: paymentId } = JSON.parse(recorded.text)
  model.payments.push({ ...recorded, id: paymentId, allocated, reversed: false, revision: 1 })
  if (applied > 0) invoice.revision += 1
}

/** `updated_at` rises with the revision and only with it, whatever the clock says. */
function checkStamp({ seen }: Real, { id, revision, updated_at }: Stamped): void {
  const before = seen.get(id)
  seen.set(id, { id, revision, updated_at })
  if (before === undefined) return
  const asBefore = revision === before.revision && updated_at === before.updated_at
  const isLater = revision > before.revision && updated_at > before.updated_at
  must(
    asBefore || isLater,
    `${id} was ${before.revision} of ${before.updated_at}, is ${revision} of ${updated_at}`,
  )
}

async function agree(real: Real, model: Model, invoice: ModelInvoice): Promise<void> {
  const shown = await real.books.read(`/api/v1/invoices/${invoice.id}`)
  checkStamp(real, shown)
  const expected = {
    revision: invoice.revision,
    status: statusOf(model, invoice),
    amount_paid: paidOf(model, invoice),
    amount_credited: invoice.credited,
    amount_due: dueOf(model, invoice),
  }
  const { revision, status, amount_paid, amount_credited, amount_due } = shown
  const actual = { revision, status, amount_paid, amount_credited, amount_due }
  must(
    JSON.stringify(actual) === JSON.stringify(expected),
    `invoice is ${JSON.stringify(actual)}, not ${JSON.stringify(expected)}`,
  )
}

async function checkPaymentStamp(real: Real, { id, revision }: ModelPayment): Promise<void> {
  const { data } = await real.books.read(`${PAYMENTS}?debtor_id=${real.debtorId}&limit=200`)
  const shown = data.find((one: Stamped) => one.id === id)
  checkStamp(real, shown)
  must(shown.revision === revision, `${id} is revision ${shown.revision}, not ${revision}`)
}

/** What people do in Settings: through the domain, each in a transaction. Undefined, or the refusal. */
async function actByHand(
  { books }: Real,
  work: (
    tx: Parameters<typeof reversePayment>[0],
    act: Parameters<typeof reversePayment>[4],
  ) => Promise<unknown>,
): Promise<string | undefined> {
  try {
    const act = { actor: OPERATOR, now: books.backend.now }
    await books.backend.database.transaction((tx) => work(tx, act))
    return undefined
  } catch (error) {
    if (error instanceof Problem) return error.code
    throw error
  }
}

function pick<T>(items: readonly T[], place: number): T {
  const item = items[place % items.length]
  must(item !== undefined, 'nothing to pick from')
  return item
}

function send({ books }: Real, key: string, body: PaymentBody): Promise<Response> {
  return books.post(PAYMENTS, body, { 'idempotency-key': key })
}

const isReplay = ({ headers }: Response) => headers.get('idempotent-replayed') === 'true'

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
    model.invoices.push({ id, amount, credited: 0, revision: 1, state: status })
  }
  toString() {
    return `invoice(${this.status}, ${this.amount})`
  }
}

class EndInvoice implements Command {
  readonly place: number
  readonly status: 'void' | 'written_off'
  constructor(place: number, status: 'void' | 'written_off') {
    this.place = place
    this.status = status
  }
  check({ invoices }: Model) {
    return invoices.length > 0
  }
  async run(model: Model, real: Real) {
    const invoice = pick(model.invoices, this.place)
    const status = statusOf(model, invoice)
    const isOpen = status === 'open' || status === 'partially_paid'
    const isVoidable = status === 'draft' || (status === 'open' && invoice.credited === 0)
    const allowed = this.status === 'void' ? isVoidable : isOpen
    const perform = this.status === 'void' ? voidInvoice : writeOffInvoice
    const refusal = await actByHand(real, (tx, act) =>
      perform(tx, real.books.accountId, invoice.id, 'why', act),
    )
    must(refusal === (allowed ? undefined : 'invoice_state_conflict'), `${refusal} of ${status}`)
    if (allowed) {
      invoice.state = this.status
      invoice.revision += 1
    }
    await agree(real, model, invoice)
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
    const expected = settle(model, invoice, body)
    const responses = await Promise.all(
      Array.from({ length: this.callers }, () => send(real, key, body)),
    )
    const [first] = responses
    must(first !== undefined, 'at least one caller')
    if (typeof expected === 'string') {
      const codes = responses.map(({ json }) => json['code'])
      must(
        codes.every((code) => code === expected),
        `${codes} instead of ${expected}`,
      )
    } else {
      must(
        responses.every(({ status, text }) => status === 201 && text === first.text),
        `answers differ: ${responses.map(({ status, text }) => `${status} ${text}`)}`,
      )
      must(responses.filter((response) => !isReplay(response)).length === 1, 'one is the original')
      must(first.json['unapplied_amount'] === body.amount - expected, 'what is left over')
      note(model, invoice, expected, { key, body, text: first.text })
    }
    await agree(real, model, invoice)
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
    const response = await send(real, key, { ...body, amount: body.amount + this.surcharge })
    if (this.surcharge === 0) {
      must(
        response.status === 201 && response.text === text && isReplay(response),
        'the same bytes',
      )
    } else {
      const { code, original_payment_id: original } = response.json
      must(code === 'idempotency_key_reused', `${response.status} ${response.text}`)
      must(original === JSON.parse(text).id, 'it names the payment')
    }
    const invoice = model.invoices.find(({ id }) => id === body.invoice_id)
    if (invoice !== undefined) await agree(real, model, invoice)
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
    return invoices.length > 0
  }
  async run(model: Model, real: Real) {
    const invoice = pick(model.invoices, this.place)
    const due = dueOf(model, invoice)
    if (due === 0 || NOT_PAYABLE.includes(invoice.state)) return
    const body: PaymentBody = {
      invoice_id: invoice.id,
      amount: due,
      currency: 'EUR',
      allow_overpayment: false,
    }
    const keys = Array.from({ length: this.callers }, () => real.nextKey())
    const responses = await Promise.all(keys.map((key) => send(real, key, body)))
    const paid = responses.findIndex(({ status }) => status === 201)
    for (const [place, { status, json, text }] of responses.entries()) {
      if (place === paid) note(model, invoice, due, { key: keys[place] ?? '', body, text })
      else must(json['code'] === 'payment_exceeds_balance', `${status} ${text}`)
    }
    must(paid >= 0, 'one of them is right')
    await agree(real, model, invoice)
  }
  toString() {
    return `race(${this.place}, ×${this.callers})`
  }
}

/** Several people at once: each credits the same, and only what is due can be credited. */
class Credit implements Command {
  readonly place: number
  readonly amount: number
  readonly people: number
  constructor(place: number, amount: number, people: number) {
    this.place = place
    this.amount = amount
    this.people = people
  }
  check({ invoices }: Model) {
    return invoices.length > 0
  }
  async run(model: Model, real: Real) {
    const invoice = pick(model.invoices, this.place)
    const credit = { amount: this.amount, reason: 'billed twice' }
    const expected = Array.from({ length: this.people }, () => {
      const isOpen = ['open', 'partially_paid'].includes(statusOf(model, invoice))
      if (!isOpen) return 'invoice_state_conflict'
      if (this.amount > dueOf(model, invoice)) return 'validation_failed'
      invoice.credited += this.amount
      invoice.revision += 1
      return undefined
    })
    const refusals = await Promise.all(
      expected.map(() =>
        actByHand(real, (tx, act) =>
          creditInvoice(tx, real.books.accountId, invoice.id, credit, act),
        ),
      ),
    )
    must(`${refusals.toSorted()}` === `${expected.toSorted()}`, `${refusals}, not ${expected}`)
    await agree(real, model, invoice)
  }
  toString() {
    return `credit(${this.place}, ${this.amount}, ×${this.people})`
  }
}

/** Several people at once put the same money on account to the same invoice. */
class Allocate implements Command {
  readonly payment: number
  readonly place: number
  readonly amount: number
  readonly people: number
  constructor(payment: number, place: number, amount: number, people: number) {
    this.payment = payment
    this.place = place
    this.amount = amount
    this.people = people
  }
  check({ payments, invoices }: Model) {
    return payments.length > 0 && invoices.length > 0
  }
  async run(model: Model, real: Real) {
    const payment = pick(model.payments, this.payment)
    const invoice = pick(model.invoices, this.place)
    const wanted = [{ invoiceId: invoice.id, amount: this.amount }]
    const expected = Array.from({ length: this.people }, () => {
      if (payment.reversed) return 'payment_already_reversed'
      if (this.amount > unappliedOf(payment)) return 'allocation_exceeds_payment'
      if (NOT_PAYABLE.includes(invoice.state)) return 'invoice_not_payable'
      if (this.amount > dueOf(model, invoice)) return 'payment_exceeds_balance'
      const before = payment.allocated.get(invoice.id) ?? 0
      payment.allocated.set(invoice.id, before + this.amount)
      invoice.revision += 1
      payment.revision += 1
      return undefined
    })
    const refusals = await Promise.all(
      expected.map(() =>
        actByHand(real, (tx, act) =>
          allocatePayment(tx, real.books.accountId, payment.id, wanted, act),
        ),
      ),
    )
    must(`${refusals.toSorted()}` === `${expected.toSorted()}`, `${refusals}, not ${expected}`)
    await agree(real, model, invoice)
    await checkPaymentStamp(real, payment)
  }
  toString() {
    return `allocate(${this.payment}, ${this.place}, ${this.amount}, ×${this.people})`
  }
}

class TakeBack implements Command {
  readonly payment: number
  readonly place: number
  constructor(payment: number, place: number) {
    this.payment = payment
    this.place = place
  }
  check({ payments, invoices }: Model) {
    return payments.length > 0 && invoices.length > 0
  }
  async run(model: Model, real: Real) {
    const payment = pick(model.payments, this.payment)
    const invoice = pick(model.invoices, this.place)
    const from = { invoiceId: invoice.id, reason: 'for another' }
    const refusal = await actByHand(real, (tx, act) =>
      takeBackAllocation(tx, real.books.accountId, payment.id, from, act),
    )
    if (payment.reversed) {
      must(refusal === 'payment_already_reversed', `${refusal}`)
    } else {
      const done = payment.allocated.delete(invoice.id)
      must(refusal === (done ? undefined : 'invoice_not_found'), `${refusal}`)
      if (done) {
        invoice.revision += 1
        payment.revision += 1
      }
    }
    await agree(real, model, invoice)
    await checkPaymentStamp(real, payment)
  }
  toString() {
    return `takeBack(${this.payment}, ${this.place})`
  }
}

class Reverse implements Command {
  readonly payment: number
  constructor(payment: number) {
    this.payment = payment
  }
  check({ payments }: Model) {
    return payments.length > 0
  }
  async run(model: Model, real: Real) {
    const payment = pick(model.payments, this.payment)
    const refusal = await actByHand(real, (tx, act) =>
      reversePayment(tx, real.books.accountId, payment.id, 'it bounced', act),
    )
    must(refusal === (payment.reversed ? 'payment_already_reversed' : undefined), `${refusal}`)
    const covered = model.invoices.filter(({ id }) => payment.allocated.has(id))
    if (!payment.reversed) for (const one of [payment, ...covered]) one.revision += 1
    payment.reversed = true
    for (const invoice of covered) await agree(real, model, invoice)
    await checkPaymentStamp(real, payment)
  }
  toString() {
    return `reverse(${this.payment})`
  }
}

/** Backends' clocks differ, and are set. */
class SetClock implements Command {
  readonly seconds: number
  constructor(seconds: number) {
    this.seconds = seconds
  }
  check() {
    return true
  }
  async run(_model: Model, { books: { backend } }: Real) {
    backend.now = new Date(backend.now.getTime() + this.seconds * 1000)
  }
  toString() {
    return `clock(${this.seconds})`
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
    fc
      .tuple(place, amount, fc.constantFrom(1, 1, 3))
      .map(([place, amount, people]) => new Credit(place, amount, people)),
    fc
      .tuple(place, place, amount, fc.constantFrom(1, 1, 3))
      .map(([payment, place, amount, people]) => new Allocate(payment, place, amount, people)),
    fc.tuple(place, place).map(([payment, place]) => new TakeBack(payment, place)),
    place.map((payment) => new Reverse(payment)),
    fc.constantFrom(-20, -1, 0, 1, 20).map((seconds) => new SetClock(seconds)),
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
        const real: Real = { books, debtorId, seen: new Map(), nextKey: () => `model-${keys++}` }
        await new CreateInvoice('open', 10).run(model, real)
        await new CreateInvoice('open', 10).run(model, real)
        await fc.asyncModelRun(() => ({ model, real }), commands)
        for (const invoice of model.invoices) await agree(real, model, invoice)
        await agreeOnPayments(real, model)
        recorded += model.payments.length
      }),
      { numRuns: RUNS },
    )
    t.comment({ recorded })
    t.ok(recorded > 0)
  },
)

async function agreeOnPayments(real: Real, model: Model): Promise<void> {
  const { books, debtorId } = real
  const { payments } = model
  const { data } = await books.read(`${PAYMENTS}?debtor_id=${debtorId}&limit=200`)
  const shown = data.map(({ idempotency_key }: { idempotency_key: string }) => idempotency_key)
  const expected = payments.map(({ key }) => key)
  must(shown.toSorted().join() === expected.toSorted().join(), `payments ${shown}`)
  for (const { id, body, allocated, reversed, revision } of payments) {
    const found = data.find((one: { id: string }) => one.id === id)
    checkStamp(real, found)
    must(found.revision === revision, `${id} is revision ${found.revision}, not ${revision}`)
    const sums = found.allocations.map((one: { amount: number }) => one.amount)
    must(found.status === (reversed ? 'reversed' : 'recorded'), `${id} is ${found.status}`)
    must(found.unapplied_amount === body.amount - sumOf(allocated.values()), `${id} adds up`)
    must(sumOf(sums) === sumOf(allocated.values()), `${id} shows its allocations`)
  }
  const debtor = await books.read(`/api/v1/debtors/${debtorId}`)
  const unapplied = debtor.balances[0]?.unapplied ?? 0
  const sum = sumOf(payments.map(unappliedOf))
  must(unapplied === sum, `${unapplied} unapplied instead of ${sum}`)
  const outstanding = debtor.balances[0]?.outstanding ?? 0
  const owing = model.invoices.filter((one) =>
    ['open', 'partially_paid'].includes(statusOf(model, one)),
  )
  const owed = sumOf(owing.map((one) => dueOf(model, one)))
  must(outstanding === owed, `${outstanding} outstanding instead of ${owed}`)
}
