/**
 * The time at which the pause of a disputed invoice ends. The pause applies again if the dispute is resolved
 * before.
 */
import { transaction } from '../migrating/steps.ts'

export const steps = [transaction('alter table invoices add column chasing_hold_until text')]
