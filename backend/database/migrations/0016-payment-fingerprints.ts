/** The fingerprint of the request that recorded a payment. Like its Idempotency-Key, it is kept forever. */
import { transaction } from '../migrating/steps.ts'

export const steps = [transaction('alter table payments add column request_fingerprint text')]
