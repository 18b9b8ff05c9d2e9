/**
 * The decision of a person that blocked an invoice which was paid since: it applies again if the payment is
 * reversed.
 */
import { transaction } from '../migrating/steps.ts'

export const steps = [transaction('alter table invoices add column chasing_hold text')]
