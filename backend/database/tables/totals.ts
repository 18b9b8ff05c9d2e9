/** Rows derived from invoices and debtors, so that pages need not sum or search whole accounts. */
import type { Generated } from 'kysely'
import type { Bit } from './bit.ts'

/**
 * A debtor whose totals or search terms may be outdated. Triggers append a row when the debtor or one of its open
 * invoices changes. The row is deleted when the totals and terms of the debtor have been computed again.
 */
export interface LedgerChangeRow {
  id: Generated<number>
  account_id: string
  debtor_id: string
}

/** The amount due on an account's open invoices in one currency and with one due date. */
export interface DueTotalRow {
  account_id: string
  currency: string
  due_date: string
  amount: number
  invoices: number
}

/** The part of a `DueTotalRow` that one debtor owes. */
export interface DebtorDueRow {
  debtor_id: string
  currency: string
  due_date: string
  account_id: string
  amount: number
  invoices: number
}

/** The amount due on all open invoices of a debtor in one currency. */
export interface DebtorBalanceRow {
  debtor_id: string
  currency: string
  account_id: string
  outstanding: number
}

/** A debtor with an amount due: since when it owes, and whether it can be reminded. */
export interface DebtorStandingRow {
  debtor_id: string
  account_id: string
  /** The oldest due date of the debtor's open invoices. */
  oldest_due_date: string
  /** Whether the debtor is not archived. */
  is_active: Bit
  /** Whether reminders can be sent to the debtor's e-mail address. */
  is_reachable: Bit
}

/** A word of a debtor's name, city, e-mail address or external id, for the search. */
export interface DebtorTermRow {
  debtor_id: string
  term: string
  account_id: string
}

export interface TotalTables {
  ledger_changes: LedgerChangeRow
  due_totals: DueTotalRow
  debtor_dues: DebtorDueRow
  debtor_balances: DebtorBalanceRow
  debtor_standings: DebtorStandingRow
  debtor_terms: DebtorTermRow
}
