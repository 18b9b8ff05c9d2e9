import { addDays } from '../calendar/calendar.ts'
import type { PaymentRow } from '../database/tables.ts'
import { list, metadata, object, optional, required, requiredNotNull } from '../validation/body.ts'
import {
  amount,
  boolean,
  calendarDate,
  currency,
  externalId,
  objectId,
  oneOf,
  text,
} from '../validation/fields.ts'
import { ALLOCATIONS_MAX } from './allocation.ts'
import type { NewPayment, PaymentTarget } from './payments.ts'

export interface PaymentBody {
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

/** An earlier date is rejected, because it is probably a typing error. */
const RECEIVED_ON_MIN = '2000-01-01'

const receivedOn = calendarDate.custom((date: string, helpers) => {
  if (date < RECEIVED_ON_MIN) return helpers.error('date.min', { limit: RECEIVED_ON_MIN })
  // Tomorrow is valid, because the date may already have begun in the time zone of the payer's bank.
  const tomorrow = addDays(helpers.prefs.context?.['today'], 1)
  return date > tomorrow ? helpers.error('date.future') : date
})

// Null counts as omitted, except in an amount: `requiredNotNull` rejects a null amount with the code `invalid_type`,
// because the client has made a mistake.
export const paymentBody = object<PaymentBody>({
  amount: requiredNotNull(amount),
  currency: required(currency),
  invoice_id: optional(objectId),
  allocations: optional(
    list(
      object<AllocationBody>({ invoice_id: required(objectId), amount: requiredNotNull(amount) }),
      { max: ALLOCATIONS_MAX },
    ),
  ),
  debtor_id: optional(objectId),
  allow_overpayment: optional(boolean),
  received_on: optional(receivedOn),
  method: optional(oneOf(['bank_transfer', 'card', 'direct_debit', 'cash', 'cheque', 'other'])),
  reference: optional(text({ max: 140, min: 0 })),
  external_id: optional(externalId),
  metadata,
}).xor('invoice_id', 'allocations', 'debtor_id')

export function newPayment(body: PaymentBody): NewPayment {
  return {
    target: targetOf(body),
    amount: body.amount,
    currency: body.currency,
    allowOverpayment: body.allow_overpayment ?? false,
    keepsRestOnAccount: false,
    receivedOn: body.received_on ?? null,
    method: body.method ?? 'other',
    reference: body.reference || null,
    externalId: body.external_id ?? null,
    metadata: body.metadata ?? {},
  }
}

/** Exactly one of the three members is present, because the schema has `xor`. */
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
