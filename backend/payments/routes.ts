import type { Operation } from '../api/operation.ts'
export const paymentOperations: readonly Operation[] = []
