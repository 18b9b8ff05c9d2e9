/** Payments: the list, one of them, and its reversal. */
import type { PaymentRow, Reader } from '../../database/tables.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { findInvoices } from '../../invoices/invoices.ts'
import { listPayments, readAllocations } from '../../payments/payment-list.ts'
import { renderPayment } from '../../payments/representation.ts'
import { findPayment, reversePayment } from '../../payments/reversal.ts'
import { setFlash } from '../../sessions/sessions.ts'
import type { FailedAct } from '../shell/acts.ts'
import { notFound } from '../shell/faults.ts'
import { listOf, newestFrom, pageOf, parseListQuery } from '../shell/list-query.ts'
import { readNames } from '../shell/names.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import type { Draw } from '../shell/response.ts'
import { type PaymentView, renderPaymentPage } from './payment-page.ts'
import { renderPayments } from './payments-page.ts'

const PATH = '/settings/payments'

export const paymentPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session, query }, { database: { read } }) {
      const { id: accountId } = session.account
      const list = parseListQuery(query, ['debtor_id'])
      const debtorId = list.value('debtor_id')
      const page = await newestFrom(list.cursor, list.limit, (id) =>
        findPayment(read, accountId, id),
      )
      const filters = debtorId === undefined ? {} : { debtor_id: debtorId }
      const found = await listPayments(read, accountId, filters, page)
      const { rows, next } = pageOf(found, list.limit)
      const owners = debtorId === undefined ? rows : [...rows, { debtor_id: debtorId }]
      const customers = await readNames(read, accountId, owners)
      return {
        json: listOf(await represent(read, accountId, rows), next),
        page: (frame) => renderPayments(frame, { rows, next, debtorId, customers }),
      }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    handle: async (request, { database }) => show(await readPayment(database.read, request)),
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/reverse`,
    admins: 'Only an Admin can reverse payments.',
    expected: { texts: ['reason'] },
    async handle({ session, id, fields, act, wantsJson }, { database }) {
      const { id: accountId } = session.account
      const row = await database.transaction(async (tx) => {
        if (!wantsJson) await setFlash(tx, session.token, 'payment_reversed')
        return reversePayment(tx, accountId, id, fields.text('reason'), act)
      })
      const [json] = await represent(database.read, accountId, [row])
      return { json, location: `${PATH}/${id}` }
    },
    async redraw(request, problem, { database }) {
      if (problem.code === 'not_found') return undefined
      const failed = { name: 'reverse', reason: request.fields.text('reason'), problem }
      return show(await readPayment(database.read, request), failed).page
    },
  },
]

async function represent(reader: Reader, accountId: string, rows: readonly PaymentRow[]) {
  const ids = rows.map(({ id }) => id)
  const allocations = await readAllocations(reader, accountId, ids)
  return rows.map((row) => renderPayment(row, allocations.get(row.id) ?? []))
}

function show(view: PaymentView, failed?: FailedAct) {
  const page: Draw = (frame) => renderPaymentPage(frame, view, failed)
  return { json: renderPayment(view.row, view.allocations), page }
}

async function readPayment(
  reader: Reader,
  { session, id }: Pick<SessionRequest, 'session' | 'id'>,
): Promise<PaymentView> {
  const { id: accountId } = session.account
  const row = (await findPayment(reader, accountId, id)) ?? notFound('payment', id)
  const allocations = (await readAllocations(reader, accountId, [id])).get(id) ?? []
  const ids = allocations.map(({ invoice_id }) => invoice_id)
  const [debtor, invoices] = await Promise.all([
    findDebtor(reader, accountId, row.debtor_id),
    ids.length === 0 ? [] : findInvoices(reader, accountId, ids),
  ])
  const numbers = new Map(invoices.map((invoice) => [invoice.id, invoice.number]))
  return { session, row, allocations, numbers, customer: debtor?.name ?? '' }
}
