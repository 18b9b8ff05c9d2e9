/** Rows derived from invoices and debtors, so that pages need not sum whole accounts. */
import type { Generated } from 'kysely'
import type { Bit } from './bit.ts'

/**
 * A debtor whose totals are outdated. Triggers append the row when the debtor or an invoice changes, and it is deleted
 * once the totals of the debtor have been computed again.
 */
export interface LedgerChangeRow {
  id: Generated<number>
  account_id: string
  debtor_id: string
}

/** The amount due on an account's open invoices, by due date. */
export interface DueTotalRow {
  account_id: string
  currency: string
  due_date: string
  amount: number
  invoices: number
}

/** The amounts that a debtor contributes to the totals of its account. */
export interface DebtorDueRow {
  debtor_id: string
  currency: string
  due_date: string
  account_id: string
  amount: number
  invoices: number
}

export interface DebtorBalanceRow {
  debtor_id: string
  currency: string
  account_id: string
  outstanding: number
}

/** A debtor with an amount due. */
export interface DebtorStandingRow {
  debtor_id: string
  account_id: string
  /** The oldest due date of the debtor's open invoices. */
  oldest_due_date: string
  is_active: Bit
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
