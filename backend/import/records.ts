/** The stored records that an import compares with its file, as the API represents them. */

export interface DebtorRecord {
  readonly id: string
  readonly external_id: string | null
}

export interface InvoiceRecord {
  readonly id: string
  readonly external_id: string | null
  readonly debtor_id: string
  readonly number: string
  readonly currency: string
  readonly amount: number
  readonly amount_due: number
  readonly issue_date: string
  readonly due_date: string
  readonly status: string
}

export interface PaymentRecord {
  readonly id: string
  readonly external_id: string | null
  readonly currency: string
  readonly amount: number
  readonly received_on: string
  readonly status: string
  readonly allocations: readonly { readonly invoice_id: string }[]
}

export interface ServiceRecords {
  readonly debtors: readonly DebtorRecord[]
  readonly invoices: readonly InvoiceRecord[]
  readonly payments: readonly PaymentRecord[]
}
