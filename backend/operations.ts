import { meOperation } from './api/me.ts'
import type { Operation } from './api/operation.ts'
import { debtorOperations } from './debtors/routes.ts'
import { invoiceOperations } from './invoices/routes.ts'
import { messageOperations } from './messages/routes.ts'
import { paymentOperations } from './payments/routes.ts'

export const OPERATIONS: readonly Operation[] = [
  meOperation,
  ...debtorOperations,
  ...invoiceOperations,
  ...paymentOperations,
  ...messageOperations,
]
