import type { Operation } from '../api/operation.ts'
export const invoiceOperations: readonly Operation[] = []
