import { todayIn } from '../../calendar/calendar.ts'
import type { InvoiceRow, InvoiceRowWithOptionalLines, Reader } from '../../database/tables.ts'
import { readBalances } from '../../debtors/balances.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { findInvoice } from '../../invoices/invoices.ts'
import { parseCurrency } from '../../money/money.ts'
import { newPayment, paymentBody } from '../../payments/payment-body.ts'
import { type NewPayment, type RecordedPayment, recordPayment } from '../../payments/payments.ts'
import { representPayment } from '../../payments/representation.ts'
import { validateBody } from '../../validation/body.ts'
import type { JsonObject } from '../../validation/json.ts'
import { notFound, rejectField } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import {
  ALLOCATION_FIELDS,
  allocationDefaults,
  parseAllocations,
  readAllocatableInvoices,
} from './allocation-fields.ts'
import { amountText, readAmountText } from './amount-field.ts'
import { type MoneyAction, moneyActionPages } from './money-action.ts'
import { renderPickCustomer } from './pick-customer-page.ts'
import {
  ALLOCATION_MODES,
  type AllocationMode,
  type LoadedDebtor,
  RECENT_MAX,
} from './record-form.ts'
import { renderRecordForm, renderRecordPreview } from './record-payment-page.ts'

const PATH = '/settings/payments'
const action: MoneyAction<LoadedDebtor, NewPayment, RecordedPayment> = {
  paths: {
    form: `${PATH}/new`,
    preview: `${PATH}/preview`,
    edit: `${PATH}/edit`,
    action: PATH,
  },
  operation: 'settings.recordPayment',
  adminsOnlyMessage: 'Only an Admin can record payments.',
  flash: 'payment_recorded',
  isCreation: true,
  expected: {
    texts: ['debtor_id', 'invoice_id', 'currency', 'received_on', 'method', 'reference', 'put_to'],
    numbers: ['amount'],
    ...ALLOCATION_FIELDS,
  },
  load: loadDebtor,
  defaults: ({ debtor, currency, invoice, invoices, today }) => ({
    debtor_id: debtor.id,
    currency,
    invoice_id: invoice?.id ?? '',
    amount: invoice === undefined ? '' : amountText(invoice.amount_due, currency),
    received_on: today,
    method: 'bank_transfer',
    put_to: invoice === undefined ? 'oldest_first' : 'chosen',
    ...allocationDefaults(invoices, ({ id, amount_due }) => (id === invoice?.id ? amount_due : 0)),
  }),
  renderForm: renderRecordForm,
  parse: parsePayment,
  perform: (tx, { session, now }, { accountId, timezone }, input) =>
    recordPayment(
      tx,
      {
        ...{ accountId, timezone },
        source: 'app',
        recordedBy: { type: 'user', id: session.user.id, label: session.user.email },
        idempotencyKey: null,
        fingerprint: null,
        now,
      },
      input,
    ),
  renderPreview: renderRecordPreview,
  represent: (_loaded, { payment, allocations }) => representPayment(payment, allocations),
  location: (id) => `${PATH}/${id}`,
}

export const recordPaymentPages: readonly SessionPage[] = moneyActionPages(action).map((page) =>
  page.path === action.paths.form ? { ...page, handle: withCustomerPicker(page.handle) } : page,
)

/** If the request contains neither a customer nor an invoice, shows the page that lets the user select a customer. */
function withCustomerPicker(handle: SessionPage['handle']): SessionPage['handle'] {
  return async (request, deps) => {
    const { query } = request
    if (query.has('debtor_id') || query.has('invoice_id')) return handle(request, deps)
    const search = query.get('q')?.trim() ?? ''
    return renderPickCustomer(deps.database, request, search, {
      title: 'Record a payment',
      question: 'Who paid?',
      path: action.paths.form,
    })
  }
}

async function loadDebtor(reader: Reader, request: SessionRequest): Promise<LoadedDebtor> {
  const { session, now, query, fields } = request
  const { id: accountId, timezone } = session.account
  const sentValue = (name: string) => fields.text(name) || (query.get(name) ?? '')
  const invoiceId = sentValue('invoice_id')
  const invoice = invoiceId === '' ? undefined : await findInvoice(reader, accountId, invoiceId)
  if (invoiceId !== '' && invoice === undefined) notFound('invoice', invoiceId)
  const debtorId = invoice?.debtor_id ?? sentValue('debtor_id')
  const debtor = (await findDebtor(reader, accountId, debtorId)) ?? notFound('customer', debtorId)
  const today = todayIn(timezone, now)
  const balances = (await readBalances(reader, accountId, [debtorId], today)).get(debtorId) ?? []
  const currencies = balances.filter((row) => row.outstanding > 0).map((row) => row.currency)
  const sentCurrency = sentValue('currency')
  const currency =
    invoice?.currency ?? parseCurrency(sentCurrency) ?? currencies[0] ?? debtor.currency ?? 'EUR'
  const recent = await reader
    .selectFrom('payments')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('debtor_id', '=', debtorId)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(RECENT_MAX)
    .execute()
  return {
    ...{ accountId, timezone, debtorId, today, now, debtor, invoice, recent, currencies, currency },
    invoiceIds: invoice === undefined ? [] : [invoice.id],
    invoices: withWrittenOff(
      await readAllocatableInvoices(reader, accountId, debtorId, currency, invoice?.id),
      invoice,
    ),
  }
}

/** If the form was opened for a written-off invoice, adds this invoice: it is not open, but can still be paid. */
function withWrittenOff(
  open: readonly InvoiceRowWithOptionalLines[],
  invoice: InvoiceRow | undefined,
): readonly InvoiceRowWithOptionalLines[] {
  return invoice?.status === 'written_off' ? [invoice, ...open] : open
}

function parsePayment(loaded: LoadedDebtor, fields: Fields): NewPayment {
  const currency = parseCurrency(fields.text('currency') || loaded.currency)
  if (currency === undefined) {
    rejectField('currency', 'The currency must be a three-letter ISO 4217 code, e.g. EUR.')
  }
  const text = fields.text('amount')
  // JSON contains the amount in minor units, e.g. 12500. A form contains the text that a person entered, e.g. 125.00.
  const amountOrFault = fields.isJson && text !== '' ? Number(text) : readAmountText(text, currency)
  if (typeof amountOrFault === 'string') {
    rejectField('amount', text.trim() === '' ? 'Enter the amount.' : `The amount ${amountOrFault}.`)
  }
  const amount = amountOrFault
  const allocationMode = allocationModeOf(fields)
  const allocatable = { invoices: loaded.invoices, currency, available: amount }
  const allocations = allocationMode === 'chosen' ? parseAllocations(fields, allocatable) : []
  if (allocationMode === 'chosen' && allocations.length === 0) {
    rejectField('put_to', 'Enter an amount for at least one invoice, or choose another option.')
  }
  const body: JsonObject = {
    amount,
    currency,
    ...(allocationMode === 'chosen'
      ? {
          allocations: allocations.map((allocation) => ({
            invoice_id: allocation.invoiceId,
            amount: allocation.amount,
          })),
        }
      : { debtor_id: loaded.debtorId }),
    received_on: fields.text('received_on') || loaded.today,
    method: fields.text('method') || 'other',
    reference: fields.text('reference').trim(),
  }
  const checked = validateBody(paymentBody, body, loaded.today)
  const payment = newPayment(checked)
  // The API has no target `oldest_first`: with `debtor_id`, the account's setting `apply_credit` decides about the
  // allocation. The target is therefore set here, after the body was checked.
  const target = { kind: 'oldest_first', debtorId: loaded.debtorId } as const
  return {
    ...payment,
    // Undefined rejects an overpayment, as false does, but the error then does not propose `allow_overpayment`, a field
    // that the form does not have.
    allowOverpayment: undefined,
    // The form promises that the unallocated part of the payment stays on account, whatever the account's setting
    // `apply_credit` is. If `put_to` is omitted, which only scripts can do, this setting decides.
    keepsRestOnAccount: fields.text('put_to') !== '',
    ...(allocationMode === 'oldest_first' && { target }),
  }
}

/**
 * Only scripts can omit `put_to`. If they send allocations, the mode is `chosen`. Otherwise, it is `on_account`, and
 * the account's setting `apply_credit` decides about the allocation (see `keepsRestOnAccount`).
 */
function allocationModeOf(fields: Fields): AllocationMode {
  const text = fields.text('put_to')
  if (text === '') return fields.list('allocations/invoice_id').length > 0 ? 'chosen' : 'on_account'
  const known = ALLOCATION_MODES.find((candidate) => candidate === text)
  return known ?? rejectField('put_to', `put_to must be one of ${ALLOCATION_MODES.join(', ')}.`)
}
