/** What integrations ask again and again, each of a place in the books that chance chooses. */
import { sealCursor } from '../../../backend/api/cursor.ts'
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

/** What a caller knows of the books. */
export interface Books {
  readonly ledger: Ledger
  /** How many places, all over the books, are asked about. */
  readonly places: number
  /** Seals the cursors of pages that nobody has walked to. */
  readonly cursorKey: Buffer
}

export interface Call {
  readonly name: string
  /** Below /api/v1/, of a page below /settings. */
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
  page('search', (books) => `/search?q=INV-${anyPlace(books)}`),

  { name: 'debtor by id', path: (books) => `debtors/${idOf('deb', anyDebtor(books))}` },
  { name: 'invoice by id', path: (books) => `invoices/${idOf('inv', anyPlace(books))}` },

  list('debtors'),
  list('debtors', 'q=…', (books) => `q=${encodeURIComponent(nameOf(anyDebtor(books)))}`),
  list('debtors', 'email=…', (books) => `email=${emailOf(anyDebtor(books))}`),
  list('debtors', 'external_id=…', (books) => `external_id=C-${anyDebtor(books)}`),
  list('debtors', 'updated_since=…, sort=updated_at', changedLately),
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
  list('invoices', 'currency=USD: none', () => 'currency=USD'),
  list('invoices', 'number=…', (books) => `number=INV-${anyPlace(books)}`),
  list('invoices', 'external_id=…', (books) => `external_id=E-${anyPlace(books)}`),
  list('invoices', 'updated_since=…, sort=updated_at', changedLately),
  list('invoices', 'a page halfway', ({ ledger, cursorKey }) => {
    const place = Math.floor(ledger.invoices / 2)
    const end = { value: createdAt(ledger, place), id: idOf('inv', place) }
    return from(cursorKey, ledger, 'listInvoices', end)
  }),

  list('payments'),
  list('payments', 'debtor_id=…', ofDebtor),
  list('payments', 'invoice_id=…', ofInvoice),
  list('payments', 'idempotency_key=…', (books) => {
    return `idempotency_key=bank-line-${anyPlace(books)}`
  }),
  list('payments', 'received_since=…', ({ ledger }) => {
    return `received_since=${createdAt(ledger, 0.92 * ledger.invoices)
      .toISOString()
      .slice(0, 10)}`
  }),
  list('payments', 'currency=USD: none', () => 'currency=USD'),
  list('payments', 'updated_since=…, sort=updated_at', changedLately),
  list('payments', 'a page halfway', ({ ledger, cursorKey }) => {
    const end = halfwayOf(ledger, paidAt)
    return from(cursorKey, ledger, 'listPayments', { value: end.at, id: idOf('pay', end.place) })
  }),

  list('messages'),
  list('messages', 'debtor_id=…', ofDebtor),
  list('messages', 'invoice_id=…', ofInvoice),
  list('messages', 'status=bounced', () => 'status=bounced'),
  list('messages', 'status=failed: none', () => 'status=failed'),
  list('messages', 'stage=final: none', () => 'stage=final'),
  list('messages', 'updated_since=…, sort=updated_at', changedLately),
  list('messages', 'a page halfway', ({ ledger, cursorKey }) => {
    const end = halfwayOf(ledger, remindedAt)
    return from(cursorKey, ledger, 'listMessages', { value: end.at, id: idOf('msg', end.place) })
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

function anyPlace({ ledger: { invoices }, places }: Books): number {
  return (Math.floor(Math.random() * places) * 104_729 + 17) % invoices
}

function anyDebtor(books: Books): number {
  return debtorOf(books.ledger, anyPlace(books))
}

function ofDebtor(books: Books): string {
  return `debtor_id=${idOf('deb', anyDebtor(books))}`
}

function ofInvoice(books: Books): string {
  return `invoice_id=${idOf('inv', anyPlace(books))}`
}

/** As many changes in books of any size. */
function changedLately({ ledger }: Books): string {
  return `updated_since=${createdAt(ledger, ledger.invoices - 500).toISOString()}&sort=updated_at`
}

/** The first from the middle of the books on that there is of it. */
function halfwayOf(ledger: Ledger, when: (ledger: Ledger, place: number) => Date | undefined) {
  for (let place = Math.floor(ledger.invoices / 2); place < ledger.invoices; place++) {
    const at = when(ledger, place)
    if (at !== undefined) return { at, place }
  }
  throw new Error('there is none in the younger half of the books')
}

function from(
  cursorKey: Buffer,
  { accountId }: Ledger,
  operationId: string,
  end: { readonly value: Date; readonly id: string },
): string {
  const scope = { accountId, operationId, sort: 'created_at desc', filters: {} }
  const position = { value: end.value.toISOString(), id: end.id }
  return `cursor=${sealCursor(cursorKey, scope, position)}`
}
