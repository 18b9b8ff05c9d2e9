/**
 * The reason for which reminders of an invoice were blocked before it was paid. It applies again if the payment
 * is reversed.
 */
import { transaction } from '../migrating/steps.ts'

export const steps = [transaction('alter table invoices add column chasing_hold text')]
