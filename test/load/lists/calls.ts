/**
 * The measured calls: reads and lists that integrations make again and again, and pages of Settings. A call for one
 * record chooses the record at random.
 */
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

/** What a caller knows about the records. */
export interface Dataset {
  readonly ledger: Ledger
  /** The number of different invoices that calls request, from all parts of the dataset. */
  readonly distinctInvoices: number
  /** The key that signs cursors, so that a call can request a page without reading the pages before it. */
  readonly cursorKeys: readonly Buffer[]
}

export interface Call {
  readonly name: string
  /** The path below /api/v1/, or below /settings for a page. */
  path(dataset: Dataset): string
  readonly isPage?: true
}

export const CALLS: readonly Call[] = [
  page('Home', () => ''),
  page('customers', () => '/customers'),
  page('customers: q=…', (dataset) => {
    return `/customers?q=${encodeURIComponent(nameOf(anyDebtor(dataset)))}`
  }),
  page('invoices', () => '/invoices'),
  page('invoices: overdue', () => '/invoices?view=overdue'),
  page('payments', () => '/payments'),
  page('search', (dataset) => `/search?q=INV-${anyInvoice(dataset)}`),

  {
    name: 'debtor by id',
    path: (dataset) => `debtors/${idOf(dataset.ledger, 'deb', anyDebtor(dataset))}`,
  },
  {
    name: 'invoice by id',
    path: (dataset) => `invoices/${idOf(dataset.ledger, 'inv', anyInvoice(dataset))}`,
  },

  list('debtors'),
  list('debtors', 'q=…', (dataset) => `q=${encodeURIComponent(nameOf(anyDebtor(dataset)))}`),
  list('debtors', 'email=…', (dataset) => `email=${emailOf(anyDebtor(dataset))}`),
  list('debtors', 'external_id=…', (dataset) => `external_id=C-${anyDebtor(dataset)}`),
  list('debtors', 'updated_since=…, sort=updated_at', changedLately),
  list('debtors', 'updated_since=…, half', updatedInNewerHalf),
  list('debtors', 'status=archived: none', () => 'status=archived'),
  list('debtors', 'a page halfway', ({ ledger, cursorKeys }) =>
    cursorQuery(cursorKeys, ledger, 'listDebtors', {
      value: createdAt(ledger, Math.floor(debtorCount(ledger) / 2) * 10),
      id: idOf(ledger, 'deb', Math.floor(debtorCount(ledger) / 2)),
    }),
  ),

  list('invoices'),
  list('invoices', 'debtor_id=…', ofDebtor),
  list('invoices', 'debtor_id=…, status=open', (dataset) => `${ofDebtor(dataset)}&status=open`),
  list('invoices', 'debtor_id=…, sort=due_date', (dataset) => `${ofDebtor(dataset)}&sort=due_date`),
  list('invoices', 'status=open', () => 'status=open'),
  list('invoices', 'status=paid', () => 'status=paid'),
  list('invoices', 'status=open,partially_paid, sort=due_date', () => {
    return 'status=open,partially_paid&sort=due_date'
  }),
  list('invoices', 'status=written_off: none', () => 'status=written_off'),
  list('invoices', 'status=written_off, sort=-due_date: none', () => {
    return 'status=written_off&sort=-due_date'
  }),
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
  list('invoices', 'created_since=…, half, sort=due_date', (dataset) => {
    return `created_since=${beginOfNewerHalf(dataset)}&sort=due_date`
  }),
  list('invoices', 'updated_since=…, half', updatedInNewerHalf),
  list('invoices', 'currency=USD: none', () => 'currency=USD'),
  list('invoices', 'number=…', (dataset) => `number=INV-${anyInvoice(dataset)}`),
  list('invoices', 'external_id=…', (dataset) => `external_id=E-${anyInvoice(dataset)}`),
  list('invoices', 'updated_since=…, sort=updated_at', changedLately),
  list('invoices', 'a page halfway', ({ ledger, cursorKeys }) => {
    const index = Math.floor(ledger.invoices / 2)
    const end = { value: createdAt(ledger, index), id: idOf(ledger, 'inv', index) }
    return cursorQuery(cursorKeys, ledger, 'listInvoices', end)
  }),

  list('payments'),
  list('payments', 'debtor_id=…', ofDebtor),
  list('payments', 'invoice_id=…', ofInvoice),
  list('payments', 'idempotency_key=…', (dataset) => {
    return `idempotency_key=bank-line-${anyInvoice(dataset)}`
  }),
  list('payments', 'received_since=…', ({ ledger }) => {
    return `received_since=${createdAt(ledger, 0.92 * ledger.invoices)
      .toISOString()
      .slice(0, 10)}`
  }),
  list('payments', 'received_since=…, half', (dataset) => {
    return `received_since=${beginOfNewerHalf(dataset).slice(0, 10)}`
  }),
  list('payments', 'updated_since=…, half', updatedInNewerHalf),
  list('payments', 'currency=USD: none', () => 'currency=USD'),
  list('payments', 'updated_since=…, sort=updated_at', changedLately),
  list('payments', 'a page halfway', ({ ledger, cursorKeys }) => {
    const end = halfwayOf(ledger, paidAt)
    return cursorQuery(cursorKeys, ledger, 'listPayments', {
      value: end.at,
      id: idOf(ledger, 'pay', end.index),
    })
  }),

  list('messages'),
  list('messages', 'debtor_id=…', ofDebtor),
  list('messages', 'invoice_id=…', ofInvoice),
  list('messages', 'updated_since=…, half', updatedInNewerHalf),
  list('messages', 'status=bounced', () => 'status=bounced'),
  list('messages', 'status=failed: none', () => 'status=failed'),
  list('messages', 'status=failed, sort=-updated_at: none', () => {
    return 'status=failed&sort=-updated_at'
  }),
  list('messages', 'stage=final: none', () => 'stage=final'),
  list('messages', 'updated_since=…, sort=updated_at', changedLately),
  list('messages', 'a page halfway', ({ ledger, cursorKeys }) => {
    const end = halfwayOf(ledger, remindedAt)
    return cursorQuery(cursorKeys, ledger, 'listMessages', {
      value: end.at,
      id: idOf(ledger, 'msg', end.index),
    })
  }),
]

function page(name: string, path: (dataset: Dataset) => string): Call {
  return { name: `page of ${name}`, path, isPage: true }
}

function list(name: string, filter = '', query?: (dataset: Dataset) => string): Call {
  return {
    name: filter === '' ? name : `${name}: ${filter}`,
    path: (dataset) => (query === undefined ? name : `${name}?${query(dataset)}`),
  }
}

function anyInvoice({ ledger: { invoices }, distinctInvoices }: Dataset): number {
  return (Math.floor(Math.random() * distinctInvoices) * 104_729 + 17) % invoices
}

function anyDebtor(dataset: Dataset): number {
  return debtorOf(dataset.ledger, anyInvoice(dataset))
}

function ofDebtor(dataset: Dataset): string {
  return `debtor_id=${idOf(dataset.ledger, 'deb', anyDebtor(dataset))}`
}

function ofInvoice(dataset: Dataset): string {
  return `invoice_id=${idOf(dataset.ledger, 'inv', anyInvoice(dataset))}`
}

/** Returns the query for the changes since the 500th newest invoice, which are equally many in datasets of any size. */
function changedLately({ ledger }: Dataset): string {
  return `updated_since=${createdAt(ledger, ledger.invoices - 500).toISOString()}&sort=updated_at`
}

/** Returns the time after which the newer half of the invoices was created and updated. */
function beginOfNewerHalf({ ledger }: Dataset): string {
  return createdAt(ledger, ledger.invoices / 2).toISOString()
}

function updatedInNewerHalf(dataset: Dataset): string {
  return `updated_since=${beginOfNewerHalf(dataset)}`
}

/** Returns the number of the first invoice of the newer half for which `when` returns a time, and that time. */
function halfwayOf(ledger: Ledger, when: (ledger: Ledger, index: number) => Date | undefined) {
  for (let index = Math.floor(ledger.invoices / 2); index < ledger.invoices; index++) {
    const at = when(ledger, index)
    if (at !== undefined) return { at, index }
  }
  throw new Error('the newer half of the dataset has no such record')
}

function cursorQuery(
  cursorKeys: readonly Buffer[],
  { accountId }: Ledger,
  operationId: string,
  end: { readonly value: Date; readonly id: string },
): string {
  const listQuery = { accountId, operationId, sort: 'created_at desc', filters: {} }
  const position = { value: end.value.toISOString(), id: end.id }
  return `cursor=${signCursor(cursorKeys, listQuery, position)}`
}
