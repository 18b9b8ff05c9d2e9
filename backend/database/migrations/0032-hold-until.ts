/**
 * The time at which the pause of a disputed invoice ends. If the dispute is resolved before this time, the pause
 * applies again.
 */
import { transaction } from '../migrating/steps.ts'

export const steps = [transaction('alter table invoices add column chasing_hold_until text')]
