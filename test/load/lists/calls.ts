/** The calls that integrations make again and again, each about a record that is chosen at random. */
import { signCursor } from '../../../backend/api/cursor.ts'
import {
  createdAt,
  debtorCount,
  debtorOf,
  emailOf,
  idOf,
  type Ledger,
  nameOf,
  paidAt,
  remindedAt,
} from './ledger.ts'

/** What a caller knows about the books. */
export interface Books {
  readonly ledger: Ledger
  /** The number of different invoices, spread over the books, that calls concern. */
  readonly distinctInvoices: number
  /** The key that seals cursors of pages, so that a call can request a page without reading those before it. */
  readonly cursorKey: Buffer
}

export interface Call {
  readonly name: string
  /** The path below /api/v1/, or below /settings for a page. */
  path(books: Books): string
  readonly isPage?: true
}

export const CALLS: readonly Call[] = [
  page('Home', () => ''),
  page('customers', () => '/customers'),
  page('customers: q=…', (books) => {
    return `/customers?q=${encodeURIComponent(nameOf(anyDebtor(books)))}`
  }),
  page('invoices', () => '/invoices'),
  page('invoices: overdue', () => '/invoices?view=overdue'),
  page('payments', () => '/payments'),
  page('search', (books) => `/search?q=INV-${anyInvoice(books)}`),

  { name: 'debtor by id', path: (books) => `debtors/${idOf('deb', anyDebtor(books))}` },
  { name: 'invoice by id', path: (books) => `invoices/${idOf('inv', anyInvoice(books))}` },

  list('debtors'),
  list('debtors', 'q=…', (books) => `q=${encodeURIComponent(nameOf(anyDebtor(books)))}`),
  list('debtors', 'email=…', (books) => `email=${emailOf(anyDebtor(books))}`),
  list('debtors', 'external_id=…', (books) => `external_id=C-${anyDebtor(books)}`),
  list('debtors', 'updated_since=…, sort=updated_at', changedLately),
  list('debtors', 'updated_since=…, half', updatedInNewerHalf),
  list('debtors', 'status=archived: none', () => 'status=archived'),
  list('debtors', 'a page halfway', ({ ledger, cursorKey }) =>
    from(cursorKey, ledger, 'listDebtors', {
      value: createdAt(ledger, Math.floor(debtorCount(ledger) / 2) * 10),
      id: idOf('deb', Math.floor(debtorCount(ledger) / 2)),
    }),
  ),

  list('invoices'),
  list('invoices', 'debtor_id=…', ofDebtor),
  list('invoices', 'debtor_id=…, status=open', (books) => `${ofDebtor(books)}&status=open`),
  list('invoices', 'debtor_id=…, sort=due_date', (books) => `${ofDebtor(books)}&sort=due_date`),
  list('invoices', 'status=open', () => 'status=open'),
  list('invoices', 'status=paid', () => 'status=paid'),
  list('invoices', 'status=open,partially_paid, sort=due_date', () => {
    return 'status=open,partially_paid&sort=due_date'
  }),
  list('invoices', 'status=written_off: none', () => 'status=written_off'),
  list('invoices', 'overdue=true', () => 'overdue=true'),
  list('invoices', 'overdue=true, sort=due_date', () => 'overdue=true&sort=due_date'),
  list('invoices', 'due_since=…, sort=due_date', ({ ledger }) => {
    return `due_since=${ledger.now.toISOString().slice(0, 10)}&sort=due_date`
  }),
  list('invoices', 'due_before=…, nearly all', ({ ledger }) => {
    return `due_before=${ledger.now.toISOString().slice(0, 10)}`
  }),
  list('invoices', 'due_since=…, the newest', ({ ledger }) => {
    return `due_since=${ledger.now.toISOString().slice(0, 10)}`
  }),
  list('invoices', 'created_since=…, half, sort=due_date', (books) => {
    return `created_since=${beginOfNewerHalf(books)}&sort=due_date`
  }),
  list('invoices', 'updated_since=…, half', updatedInNewerHalf),
  list('invoices', 'currency=USD: none', () => 'currency=USD'),
  list('invoices', 'number=…', (books) => `number=INV-${anyInvoice(books)}`),
  list('invoices', 'external_id=…', (books) => `external_id=E-${anyInvoice(books)}`),
  list('invoices', 'updated_since=…, sort=updated_at', changedLately),
  list('invoices', 'a page halfway', ({ ledger, cursorKey }) => {
    const index = Math.floor(ledger.invoices / 2)
    const end = { value: createdAt(ledger, index), id: idOf('inv', index) }
    return from(cursorKey, ledger, 'listInvoices', end)
  }),

  list('payments'),
  list('payments', 'debtor_id=…', ofDebtor),
  list('payments', 'invoice_id=…', ofInvoice),
  list('payments', 'idempotency_key=…', (books) => {
    return `idempotency_key=bank-line-${anyInvoice(books)}`
  }),
  list('payments', 'received_since=…', ({ ledger }) => {
    return `received_since=${createdAt(ledger, 0.92 * ledger.invoices)
      .toISOString()
      .slice(0, 10)}`
  }),
  list('payments', 'received_since=…, half', (books) => {
    return `received_since=${beginOfNewerHalf(books).slice(0, 10)}`
  }),
  list('payments', 'updated_since=…, half', updatedInNewerHalf),
  list('payments', 'currency=USD: none', () => 'currency=USD'),
  list('payments', 'updated_since=…, sort=updated_at', changedLately),
  list('payments', 'a page halfway', ({ ledger, cursorKey }) => {
    const end = halfwayOf(ledger, paidAt)
    return from(cursorKey, ledger, 'listPayments', { value: end.at, id: idOf('pay', end.index) })
  }),

  list('messages'),
  list('messages', 'debtor_id=…', ofDebtor),
  list('messages', 'invoice_id=…', ofInvoice),
  list('messages', 'updated_since=…, half', updatedInNewerHalf),
  list('messages', 'status=bounced', () => 'status=bounced'),
  list('messages', 'status=failed: none', () => 'status=failed'),
  list('messages', 'stage=final: none', () => 'stage=final'),
  list('messages', 'updated_since=…, sort=updated_at', changedLately),
  list('messages', 'a page halfway', ({ ledger, cursorKey }) => {
    const end = halfwayOf(ledger, remindedAt)
    return from(cursorKey, ledger, 'listMessages', { value: end.at, id: idOf('msg', end.index) })
  }),
]

function page(name: string, path: (books: Books) => string): Call {
  return { name: `page of ${name}`, path, isPage: true }
}

function list(name: string, filter = '', query?: (books: Books) => string): Call {
  return {
    name: filter === '' ? name : `${name}: ${filter}`,
    path: (books) => (query === undefined ? name : `${name}?${query(books)}`),
  }
}

function anyInvoice({ ledger: { invoices }, distinctInvoices }: Books): number {
  return (Math.floor(Math.random() * distinctInvoices) * 104_729 + 17) % invoices
}

function anyDebtor(books: Books): number {
  return debtorOf(books.ledger, anyInvoice(books))
}

function ofDebtor(books: Books): string {
  return `debtor_id=${idOf('deb', anyDebtor(books))}`
}

function ofInvoice(books: Books): string {
  return `invoice_id=${idOf('inv', anyInvoice(books))}`
}

/** Requests the changes of the newest 500 invoices, as many in books of any size. */
function changedLately({ ledger }: Books): string {
  return `updated_since=${createdAt(ledger, ledger.invoices - 500).toISOString()}&sort=updated_at`
}

/** Returns the time after which the newer half of the invoices was created and updated. */
function beginOfNewerHalf({ ledger }: Books): string {
  return createdAt(ledger, ledger.invoices / 2).toISOString()
}

function updatedInNewerHalf(books: Books): string {
  return `updated_since=${beginOfNewerHalf(books)}`
}

/** Returns the first payment or message in the newer half of the books. */
function halfwayOf(ledger: Ledger, when: (ledger: Ledger, index: number) => Date | undefined) {
  for (let index = Math.floor(ledger.invoices / 2); index < ledger.invoices; index++) {
    const at = when(ledger, index)
    if (at !== undefined) return { at, index }
  }
  throw new Error('the newer half of the books has no such record')
}

function from(
  cursorKey: Buffer,
  { accountId }: Ledger,
  operationId: string,
  end: { readonly value: Date; readonly id: string },
): string {
  const scope = { accountId, operationId, sort: 'created_at desc', filters: {} }
  const position = { value: end.value.toISOString(), id: end.id }
  return `cursor=${signCursor(cursorKey, scope, position)}`
}
