import type { Problem } from '../../../shared/contract/problem.ts'
import type { InvoiceRowWithOptionalLines, Reader } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { listOpenInvoices } from '../../invoices/invoices.ts'
import { daysPastDue } from '../../invoices/overdue.ts'
import { moneyText } from '../../money/money-text.ts'
import type { NewAllocation } from '../../payments/targets.ts'
import { type FieldError, fieldErrorsProblem } from '../../validation/field-errors.ts'
import type { ExpectedFields, Fields } from '../shell/fields.ts'
import { describedBy, renderFieldFaults } from '../shell/layout.ts'
import { dateWords, renderMoney } from '../shell/ledger-words.ts'
import { plural } from '../shell/words.ts'
import { amountText, readAmountText } from './amount-field.ts'

/**
 * The maximum number of invoices in the table. A form with many more would exceed the limit on fields. Few payments are
 * for more invoices than this.
 */
const SHOWN_MAX = 40

/** The fields of the table. A page whose form contains the table includes them in `expected`. */
export const ALLOCATION_FIELDS: Required<Pick<ExpectedFields, 'rows'>> = {
  rows: { allocations: { texts: ['invoice_id'], numbers: ['amount'] } },
}

/**
 * Returns the open invoices of a debtor in a currency, earliest due date first, at most `SHOWN_MAX`. The invoice
 * `firstId` precedes all others.
 */
export async function readAllocatableInvoices(
  reader: Reader,
  accountId: string,
  debtorId: string,
  currency: string,
  firstId?: string,
): Promise<readonly InvoiceRowWithOptionalLines[]> {
  return listOpenInvoices(reader, accountId, debtorId, currency, { max: SHOWN_MAX, firstId })
}

export interface Allocatable {
  readonly invoices: readonly InvoiceRowWithOptionalLines[]
  readonly currency: string
  /** The amount that may be allocated, in minor units. */
  readonly available: number
}

/**
 * Returns the amount entered for each invoice; empty amounts are ignored. If an amount of a form is malformed or too
 * large, throws `validation_failed` with a detail in the words of the form. The function that records the allocations
 * checks the amounts again, including those of JSON.
 */
export function parseAllocations(
  fields: Fields,
  { invoices, currency, available }: Allocatable,
): NewAllocation[] {
  const faults: FieldError[] = []
  const entered = enteredAllocations(fields)
  const allocations = entered.map(({ invoice_id: invoiceId, amount: text }, index) => {
    const pointer = `/allocations/${index}/amount`
    const amountOrFault = fields.isJson ? Number(text) : readAmountText(text, currency)
    if (typeof amountOrFault === 'string') {
      faults.push({ pointer, code: 'invalid_format', detail: `The amount ${amountOrFault}` })
      return { invoiceId, amount: 0 }
    }
    const amount = amountOrFault
    const invoice = invoices.find(({ id }) => id === invoiceId)
    if (!fields.isJson && invoice !== undefined && amount > invoice.amount_due) {
      const due = moneyText(invoice.amount_due, currency)
      const detail = `Only ${due} is due on ${invoice.number}`
      faults.push({ pointer, code: 'out_of_range', detail })
    }
    return { invoiceId, amount }
  })
  const sum = allocations.reduce((total, { amount }) => total + amount, 0)
  if (faults.length === 0 && !fields.isJson && sum > available) {
    const [sumText, availableText] = [moneyText(sum, currency), moneyText(available, currency)]
    const detail = `The amounts add up to ${sumText}, more than the available ${availableText}`
    faults.push({ pointer: '/allocations', code: 'out_of_range', detail })
  }
  if (faults.length > 0) throw fieldErrorsProblem(faults)
  return allocations
}

function enteredAllocations(fields: Fields) {
  return fields
    .rows('allocations', 'invoice_id', 'amount')
    .filter(({ amount }) => amount.trim() !== '')
}

/** Returns the initial values of the form. */
export function allocationDefaults(
  invoices: readonly InvoiceRowWithOptionalLines[],
  amountOf: (invoice: InvoiceRowWithOptionalLines) => number,
) {
  return {
    'allocations/invoice_id': invoices.map(({ id }) => id),
    'allocations/amount': invoices.map((invoice) => {
      const amount = amountOf(invoice)
      return amount === 0 ? '' : amountText(amount, invoice.currency)
    }),
  }
}

export function renderAllocationFields(
  invoices: readonly InvoiceRowWithOptionalLines[],
  today: string,
  entered: Fields,
  problem: Problem | undefined,
): Html {
  const rows = entered.rows('allocations', 'invoice_id', 'amount')
  const filled = enteredAllocations(entered).map(({ invoice_id }) => invoice_id)
  return html`<table class="records ledger shares"><caption class="unseen">Open invoices</caption>
<thead><tr><th scope="col">Invoice</th><th scope="col">Due on</th><th scope="col" class="amount">Amount due</th><th scope="col" class="amount">Amount to allocate</th></tr></thead>
<tbody>${invoices.map((invoice) => {
    const text = rows.find(({ invoice_id }) => invoice_id === invoice.id)?.amount ?? ''
    // The pointer of a fault counts only the invoices with an amount, as `parseAllocations` does.
    const name = `allocations/${filled.indexOf(invoice.id)}/amount`
    const isFilled = filled.includes(invoice.id)
    const late = daysPastDue(invoice, today)
    const id = isFilled ? name : `share-${invoice.id}`
    return html`<tr><th scope="row" data-label="Invoice"><a href="/settings/invoices/${invoice.id}" translate="no">${invoice.number}</a></th>
<td data-label="Due on">${dateWords(invoice.due_date)}${late > 0 && html` <span class="badge late">${plural(late, 'day')} late</span>`}</td>
<td data-label="Amount due" class="amount">${renderMoney(invoice.amount_due, invoice.currency)}</td>
<td data-label="Allocate" class="amount"><input type="hidden" name="allocations/invoice_id" value="${invoice.id}">
<input id="${id}" name="allocations/amount" value="${text}" inputmode="decimal" autocomplete="off" class="sum-field" aria-label="Amount for ${invoice.number}"${isFilled && describedBy(problem, name)}>
${isFilled && renderFieldFaults(problem, name)}</td></tr>`
  })}</tbody></table>`
}
