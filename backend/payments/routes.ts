import { listOperation } from '../api/list.ts'
import type { Operation } from '../api/operation.ts'
import { unquoteKey, type WriteContext, writeOperation } from '../api/write.ts'
import type { Reader } from '../database/database.ts'
import type { PaymentRow } from '../database/tables.ts'
import { debtorExists } from '../debtors/debtors.ts'
import { findDebtorIdOfInvoice } from '../invoices/invoices.ts'
import { parseCurrency } from '../money/money.ts'
import { calendarDate, currencyFilter, objectId, text } from '../validation/fields.ts'
import { canonicalJson, isJsonObject, type JsonObject } from '../validation/json.ts'
import { newPayment, paymentBody } from './payment-body.ts'
import {
  allocationsOf,
  findPaymentByIdempotencyKey,
  listPayments,
  readAllocations,
} from './payment-list.ts'
import { recordPayment } from './payments.ts'
import { representPayment } from './representation.ts'

const FILTERS = {
  external_id: text({ max: 128 }),
  debtor_id: objectId,
  invoice_id: objectId,
  currency: currencyFilter,
  received_since: calendarDate,
  received_before: calendarDate,
  /** With the quotes in which the key may have been sent, it has up to 257 characters. */
  idempotency_key: text({ max: 257 }),
}

export const paymentOperations: readonly Operation[] = [
  listOperation({
    operationId: 'listPayments',
    sorts: ['created_at', 'updated_at'],
    filters: FILTERS,
    find(reader, { caller }, { idempotency_key: key, ...filters }, page) {
      const byKey = key === undefined ? {} : { idempotency_key: unquoteKey(key) }
      return listPayments(reader, caller.account.id, { ...filters, ...byKey }, page)
    },
    represent: async (_reader, _call, rows) =>
      rows.map((row) => representPayment(row, allocationsOf(row))),
  }),
  writeOperation({
    operationId: 'createPayment',
    body: paymentBody,
    idempotencyKey: 'required',
    originalIdMember: 'original_payment_id',
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
      return { id: payment.id, representation: representPayment(payment, allocations) }
    },
    recall: findRecordedPayment,
    findDebtorId,
  }),
]

/**
 * Finds the only debtor whose records the payment changes, so that the payment can share a COMMIT with payments of
 * other debtors (see `TransactionScope`). The debtor of the first invoice suffices, because a payment to invoices of
 * several debtors is rejected. The body is not validated yet. If no debtor is found, the payment is only slower.
 */
async function findDebtorId(
  reader: Reader,
  accountId: string,
  { debtor_id, invoice_id, allocations }: JsonObject,
): Promise<string | undefined> {
  if (isPlainId(debtor_id)) {
    return (await debtorExists(reader, accountId, debtor_id)) ? debtor_id : undefined
  }
  const [first]: readonly unknown[] = Array.isArray(allocations) ? allocations : []
  const invoiceId = isJsonObject(first) ? first['invoice_id'] : invoice_id
  if (!isPlainId(invoiceId)) return undefined
  return await findDebtorIdOfInvoice(reader, accountId, invoiceId)
}

/** Without this check, PostgreSQL would reject the query if the id contained e.g. a NUL, which it cannot store. */
function isPlainId(id: unknown): id is string {
  return typeof id === 'string' && /^\w{1,64}$/.test(id)
}

/**
 * Finds the payment that was recorded with an idempotency key, even if the stored response has expired. Without this, a
 * late retry would be rejected.
 */
async function findRecordedPayment(
  reader: Reader,
  context: WriteContext & { readonly idempotencyKey: string },
  body: JsonObject,
) {
  const { idempotencyKey, fingerprint } = context
  const { id: accountId } = context.caller.account
  const payment = await findPaymentByIdempotencyKey(reader, accountId, idempotencyKey)
  if (payment === undefined) return undefined
  const allocations = await readAllocations(reader, accountId, [payment.id])
  const representation = representPayment(payment, allocations.get(payment.id) ?? [])
  const { id, request_fingerprint: stored } = payment
  const same =
    stored === null ? isSameRequest(body, payment, representation) : stored === fingerprint
  return { id, representation, same }
}

/** Compares the body with a payment that was recorded before fingerprints were stored. */
function isSameRequest(
  body: JsonObject,
  payment: PaymentRow,
  representation: ReturnType<typeof representPayment>,
): boolean {
  const requested =
    typeof body['currency'] === 'string' ? parseCurrency(body['currency']) : undefined
  return (
    body['amount'] === payment.amount &&
    requested === payment.currency &&
    hasSameTarget(body, representation)
  )
}

function hasSameTarget(body: JsonObject, payment: ReturnType<typeof representPayment>): boolean {
  const { invoice_id, allocations, debtor_id } = body
  // The allocations cannot be compared with the body: they may have changed since the payment was recorded, and an
  // overpayment allocates less than the body requests. The payment's `effects` never change. They name the requested
  // invoices, unless the setting `apply_credit` has allocated the rest of the payment to other invoices. In that case,
  // a late retry is rejected.
  const invoiceIds: readonly unknown[] = payment.effects.invoices.map(
    ({ id }: { id: string }) => id,
  )
  if (typeof invoice_id === 'string') return invoiceIds.length === 1 && invoiceIds[0] === invoice_id
  if (Array.isArray(allocations)) {
    const requestedIds = allocations.map((one) =>
      isJsonObject(one) ? one['invoice_id'] : undefined,
    )
    return canonicalJson(requestedIds) === canonicalJson(invoiceIds)
  }
  return invoiceIds.length === 0 && debtor_id === payment.debtor_id
}
