/** Credits on invoices: a credited amount is no longer due, although it was not paid. */
import { check, column } from '../migrating/steps.ts'

/** With a constant default, no row is rewritten. */
export const steps = [
  column('invoices', 'amount_credited', 'bigint not null default 0', 'amount_credited >= 0'),
  check({
    table: 'invoices',
    name: 'invoices_amount_due_adds_up',
    from: 'amount_due = amount - amount_paid',
    to: 'amount_due = amount - amount_paid - amount_credited',
  }),
]
