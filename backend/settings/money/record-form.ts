import type {
  DebtorRow,
  InvoiceRow,
  InvoiceRowWithOptionalLines,
  PaymentRow,
} from '../../database/tables.ts'
import type { PreviewContext } from './effects.ts'

/** The values of the field `put_to`: how the payment is allocated. */
export const ALLOCATION_MODES = ['oldest_first', 'chosen', 'on_account'] as const
export type AllocationMode = (typeof ALLOCATION_MODES)[number]

/** The debtor, and the other data that the form for recording a payment and its preview show. */
export interface LoadedDebtor extends PreviewContext {
  readonly debtor: DebtorRow
  readonly currency: string
  /** The currencies in which the debtor owes something. */
  readonly currencies: readonly string[]
  /**
   * The unpaid invoices in `currency` that the form lists, up to `SHOWN_MAX` of `allocation-fields.ts`, and `invoice`,
   * even if it is written off.
   */
  readonly invoices: readonly InvoiceRowWithOptionalLines[]
  /** The invoice from whose page the form was opened; undefined if another page opened the form. */
  readonly invoice: InvoiceRow | undefined
  /** The debtor's newest payments, newest first. The preview warns if one of them resembles the new payment. */
  readonly recent: readonly PaymentRow[]
  readonly timezone: string
}

/** The maximum length of `recent`: a debtor may have a very large number of payments. */
export const RECENT_MAX = 50
