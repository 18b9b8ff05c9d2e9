import assert from 'node:assert'
import { listOperation } from '../api/list.ts'
import type { Operation } from '../api/operation.ts'
import { type WriteContext, writeOperation } from '../api/write.ts'
import { addDays } from '../calendar/calendar.ts'
import type { Reader } from '../database/database.ts'
import type { PaymentRow } from '../database/tables.ts'
import { parseCurrency } from '../money/money.ts'
import { list, metadata, object, optional, required, requiredNotNull } from '../validation/body.ts'
import {
  amount,
  boolean,
  calendarDate,
  currency,
  currencyFilter,
  externalId,
  oneOf,
  reference,
  text,
} from '../validation/fields.ts'
import { canonicalJson, type JsonObject } from '../validation/json.ts'
import { findPaymentByKey, listPayments, readAllocations } from './payment-list.ts'
import { type NewPayment, type PaymentTarget, recordPayment } from './payments.ts'
import { renderPayment } from './representation.ts'

interface PaymentBody {
  readonly amount: number
  readonly currency: string
  readonly invoice_id?: string
  readonly allocations?: readonly AllocationBody[]
  readonly debtor_id?: string
  readonly allow_overpayment?: boolean
  readonly received_on?: string
  readonly method?: PaymentRow['method']
  readonly reference?: string
  readonly external_id?: string
  readonly metadata?: Record<string, string>
}

interface AllocationBody {
  readonly invoice_id: string
  readonly amount: number
}

/** Before it there is no payment that anyone still records; a mistyped year is likelier. */
const RECEIVED_ON_MIN = '2000-01-01'

const receivedOn = calendarDate.custom((date: string, helpers) => {
  if (date < RECEIVED_ON_MIN) return helpers.error('date.min', { limit: RECEIVED_ON_MIN })
  // Tomorrow passes: the payer's bank may be a time zone ahead.
  const tomorrow = addDays(helpers.prefs.context?.['today'], 1)
  return date > tomorrow ? helpers.error('date.future') : date
})

const paymentBody = object<PaymentBody>({
  amount: requiredNotNull(amount),
  currency: required(currency),
  invoice_id: optional(reference),
  allocations: list(
    object<AllocationBody>({ invoice_id: required(reference), amount: requiredNotNull(amount) }),
    { max: 100 },
  ).empty(null),
  debtor_id: optional(reference),
  allow_overpayment: optional(boolean),
  received_on: optional(receivedOn),
  method: optional(oneOf(['bank_transfer', 'card', 'direct_debit', 'cash', 'cheque', 'other'])),
  reference: optional(text({ max: 140, min: 0 })),
  external_id: optional(externalId),
  metadata,
}).xor('invoice_id', 'allocations', 'debtor_id')

const FILTERS = {
  external_id: text({ max: 128 }),
  debtor_id: reference,
  invoice_id: reference,
  currency: currencyFilter,
  received_since: calendarDate,
  received_before: calendarDate,
  idempotency_key: text({ max: 255 }),
}

export const paymentOperations: readonly Operation[] = [
  listOperation({
    operationId: 'listPayments',
    sorts: ['created_at', 'updated_at'],
    filters: FILTERS,
    find: (reader, { caller }, filters, page) =>
      listPayments(reader, caller.account.id, filters, page),
    render: (reader, { caller }, rows) => renderPayments(reader, caller.account.id, rows),
  }),
  writeOperation({
    operationId: 'createPayment',
    body: paymentBody,
    idempotencyKey: 'required',
    originalMember: 'original_payment_id',
    async create(tx, { caller, now, idempotencyKey, fingerprint }, body) {
      const { payment, allocations } = await recordPayment(
        tx,
        {
          accountId: caller.account.id,
          timezone: caller.account.timezone,
          source: 'api',
          recordedBy: { type: 'api_key', id: caller.key.id, label: caller.key.name },
          idempotencyKey: idempotencyKey ?? null,
          fingerprint: fingerprint ?? null,
          now,
        },
        newPayment(body),
      )
      return { id: payment.id, representation: renderPayment(payment, allocations) }
    },
    recall: recallPayment,
  }),
]

/** The key stays on the payment when the answer's bytes are gone: money is never recorded twice. */
async function recallPayment(
  reader: Reader,
  context: WriteContext & { readonly idempotencyKey: string },
  body: JsonObject,
) {
  const { idempotencyKey, fingerprint } = context
  const { id: accountId } = context.caller.account
  const payment = await findPaymentByKey(reader, accountId, idempotencyKey)
  if (payment === undefined) return undefined
  const [representation] = await renderPayments(reader, accountId, [payment])
  assert(representation !== undefined, 'each payment is rendered')
  const { id, request_fingerprint: recorded } = payment
  const same =
    recorded === null ? looksTheSame(body, payment, representation) : recorded === fingerprint
  return { id, representation, same }
}

/** Of payments that were recorded before their fingerprints were kept: what was stored has to tell. */
function looksTheSame(
  body: JsonObject,
  payment: PaymentRow,
  representation: ReturnType<typeof renderPayment>,
): boolean {
  const asked = typeof body['currency'] === 'string' ? parseCurrency(body['currency']) : undefined
  return (
    body['amount'] === payment.amount &&
    asked === payment.currency &&
    paysTheSame(body, representation)
  )
}

/** Whether the body names what the payment was for: an invoice, several with amounts, or a debtor. */
function paysTheSame(body: JsonObject, payment: ReturnType<typeof renderPayment>): boolean {
  const { invoice_id, allocations, debtor_id } = body
  const invoiceIds: readonly unknown[] = payment.effects.invoices.map(
    ({ id }: { id: string }) => id,
  )
  if (typeof invoice_id === 'string') return invoiceIds.length === 1 && invoiceIds[0] === invoice_id
  if (Array.isArray(allocations)) {
    return canonicalJson(allocations) === canonicalJson(payment.allocations)
  }
  return invoiceIds.length === 0 && debtor_id === payment.debtor_id
}

function newPayment(body: PaymentBody): NewPayment {
  return {
    target: targetOf(body),
    amount: body.amount,
    currency: body.currency,
    allowOverpayment: body.allow_overpayment ?? false,
    receivedOn: body.received_on ?? null,
    method: body.method ?? 'other',
    // An empty text is none.
    reference: body.reference || null,
    externalId: body.external_id ?? null,
    metadata: body.metadata ?? {},
  }
}

function targetOf({ invoice_id, allocations, debtor_id }: PaymentBody): PaymentTarget {
  if (invoice_id !== undefined) return { kind: 'invoice', invoiceId: invoice_id }
  if (allocations === undefined) return { kind: 'debtor', debtorId: debtor_id ?? '' }
  return {
    kind: 'allocations',
    allocations: allocations.map((allocation) => ({
      invoiceId: allocation.invoice_id,
      amount: allocation.amount,
    })),
  }
}

async function renderPayments(reader: Reader, accountId: string, rows: readonly PaymentRow[]) {
  const ids = rows.map(({ id }) => id)
  const allocations = await readAllocations(reader, accountId, ids)
  return rows.map((row) => renderPayment(row, allocations.get(row.id) ?? []))
}
