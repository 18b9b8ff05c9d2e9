import type { Reader } from '../database/database.ts'
import { findInvoicesToSettle } from '../invoices/invoices.ts'
import { type FieldError, fieldErrorsProblem } from '../validation/field-errors.ts'
import type { TargetInvoice } from './allocation.ts'

export interface NewAllocation {
  readonly invoiceId: string
  readonly amount: number
}

export type RequestedAllocation = Pick<TargetInvoice, 'pointer' | 'amount'> & {
  readonly invoiceId: string
}

/**
 * Returns the allocations with their JSON pointers. `available` is the part of the payment that is not allocated yet,
 * and `nameOfAvailable` is what the error calls it. Throws `validation_failed` if an invoice occurs twice; otherwise
 * throws `allocation_exceeds_payment` if the sum of the allocations is more than `available`.
 */
export function checkAllocations(
  allocations: readonly NewAllocation[],
  available: number,
  nameOfAvailable: 'amount' | 'unapplied amount' = 'amount',
): RequestedAllocation[] {
  const requested = allocations.map((allocation, index) => ({
    ...allocation,
    pointer: `/allocations/${index}`,
  }))
  const ids = requested.map(({ invoiceId }) => invoiceId)
  const errors = requested
    .filter(({ invoiceId }, index) => ids.indexOf(invoiceId) !== index)
    .map(({ pointer }) =>
      invoiceIdError(pointer, 'invalid_format', 'must not occur twice in allocations'),
    )
  const sum = requested.reduce((total, allocation) => total + allocation.amount, 0)
  if (sum > available) {
    const detail = `allocations add up to ${sum}, more than the ${nameOfAvailable} of ${available}`
    errors.push({ pointer: '/allocations', code: 'allocation_exceeds_payment', detail })
  }
  if (errors.length > 0) throw fieldErrorsProblem(errors)
  return requested
}

/**
 * Returns the invoices in the order of the request. Throws `invoice_not_found` with an error for each invoice
 * that the account does not have.
 */
export async function readTargetInvoices(
  reader: Reader,
  accountId: string,
  requested: readonly RequestedAllocation[],
): Promise<TargetInvoice[]> {
  const ids = requested.map(({ invoiceId }) => invoiceId)
  const rows = await findInvoicesToSettle(reader, accountId, ids)
  const byId = new Map(rows.map((row) => [row.id, row]))
  const targets = requested.flatMap(({ pointer, invoiceId, amount }) => {
    const invoice = byId.get(invoiceId)
    return invoice === undefined ? [] : [{ pointer, invoice, amount }]
  })
  if (targets.length === requested.length) return targets
  throw fieldErrorsProblem(
    requested
      .filter(({ invoiceId }) => !byId.has(invoiceId))
      .map(({ pointer }) =>
        invoiceIdError(pointer, 'invoice_not_found', 'must be the id of an invoice'),
      ),
  )
}

function invoiceIdError(pointer: string, code: string, detail: string): FieldError {
  return { pointer: `${pointer}/invoice_id`, code, detail: `invoice_id ${detail}` }
}
