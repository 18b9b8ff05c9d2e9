/**
 * Describes why a record was rejected. The errors of the API name members of a body; the descriptions name columns of
 * the file, which people can correct.
 */
import type { ColumnHeaders, FieldName } from './columns.ts'
import { type LedgerCustomer, shown } from './ledger.ts'

/** For each member of a body, the field of the file from which its value comes (see bodies.ts). */
export type MemberFields = Readonly<Record<string, FieldName>>

export function customerFields({ name }: Pick<LedgerCustomer, 'name'>): MemberFields {
  return { external_id: 'customer', name: name === undefined ? 'customer' : 'name', email: 'email' }
}

/** The fields of an invoice and its payment. */
export const INVOICE_FIELDS: MemberFields = {
  external_id: 'number',
  number: 'number',
  debtor_external_id: 'customer',
  currency: 'currency',
  amount: 'amount',
  issue_date: 'issued',
  due_date: 'due',
  received_on: 'settled',
}

/** Describes the `errors` of a problem. Returns undefined if there are none. */
export function describeFieldErrors(
  errors: unknown,
  fields: MemberFields,
  headers: ColumnHeaders,
): string | undefined {
  if (!Array.isArray(errors) || errors.length === 0) return undefined
  const nameOf = (member: string) => {
    const field = Object.hasOwn(fields, member) ? fields[member] : undefined
    const header = field === undefined ? undefined : headers.get(field)
    return header === undefined ? member : shown(header)
  }
  return (
    errors
      // The first word of a detail is the name of a member. Of the other words, only those with `_` are certainly names
      // of members.
      .map(({ detail }: { readonly detail?: unknown }) =>
        String(detail).replace(/^[a-z_]+\b|\b[a-z]+(?:_[a-z]+)+\b/g, nameOf),
      )
      .join(' ')
  )
}
