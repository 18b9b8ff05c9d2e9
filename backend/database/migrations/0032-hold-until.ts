/** When the pause of a disputed invoice ends: the pause applies again if the dispute is resolved earlier. */
import { transaction } from '../migrating/steps.ts'

export const steps = [transaction('alter table invoices add column chasing_hold_until text')]
