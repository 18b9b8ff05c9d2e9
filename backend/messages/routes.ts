import type { Operation } from '../api/operation.ts'
export const messageOperations: readonly Operation[] = []
