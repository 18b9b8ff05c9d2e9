/** The handlers of all API operations. A new resource adds its operations here. */
import type { Operation } from './api/operation.ts'
import { probeOperation } from './api/probe.ts'
import { debtorOperations } from './debtors/routes.ts'
import { invoiceOperations } from './invoices/routes.ts'
import { messageOperations } from './messages/routes.ts'
import { paymentOperations } from './payments/routes.ts'

export const OPERATIONS: readonly Operation[] = [
  probeOperation,
  ...debtorOperations,
  ...invoiceOperations,
  ...paymentOperations,
  ...messageOperations,
]
