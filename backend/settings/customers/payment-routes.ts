import { hasActionsOn } from '../../accounts/audit.ts'
import type { Reader } from '../../database/tables.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { findInvoices } from '../../invoices/invoices.ts'
import { findPayment } from '../../payments/locked-payment.ts'
import { readAllocations } from '../../payments/payment-list.ts'
import { representPayment } from '../../payments/representation.ts'
import { readReversalTime } from '../../payments/reversal-time.ts'
import { notFound } from '../shell/faults.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import type { RenderPage } from '../shell/response.ts'
import { type PaymentView, renderPaymentPage } from './payment-page.ts'

const PATH = '/settings/payments'

export const paymentPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    handle: async (request, { database }) => responseOf(await readPayment(database.read, request)),
  },
]

function responseOf(view: PaymentView) {
  const page: RenderPage = (frame) => renderPaymentPage(frame, view)
  return { json: representPayment(view.row, view.allocations), page }
}

async function readPayment(
  reader: Reader,
  { session, id }: Pick<SessionRequest, 'session' | 'id'>,
): Promise<PaymentView> {
  const { id: accountId } = session.account
  const row = (await findPayment(reader, accountId, id)) ?? notFound('payment', id)
  const allocations = (await readAllocations(reader, accountId, [id])).get(id) ?? []
  const ids = allocations.map(({ invoice_id }) => invoice_id)
  const [debtor, invoices, reversedAt, isInAuditLog] = await Promise.all([
    findDebtor(reader, accountId, row.debtor_id),
    ids.length === 0 ? [] : findInvoices(reader, accountId, ids),
    row.status === 'reversed' ? readReversalTime(reader, row) : undefined,
    hasActionsOn(reader, accountId, id),
  ])
  const invoiceNumbers = new Map(invoices.map((invoice) => [invoice.id, invoice.number]))
  return {
    ...{ session, row, allocations, invoiceNumbers, customerName: debtor?.name ?? '' },
    ...{ reversedAt, isInAuditLog },
  }
}
