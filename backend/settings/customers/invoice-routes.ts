/** The routes of invoices: the list, one invoice, and its actions. */
import type { Act } from '../../accounts/audit.ts'
import { todayIn } from '../../calendar/calendar.ts'
import type { InvoiceRow, Reader, Transaction } from '../../database/tables.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import {
  disputeInvoice,
  finaliseInvoice,
  resolveDispute,
  resumeInvoice,
  voidInvoice,
  writeOffInvoice,
} from '../../invoices/acts.ts'
import { findInvoice } from '../../invoices/invoices.ts'
import { renderInvoice } from '../../invoices/representation.ts'
import { listMessages } from '../../messages/messages.ts'
import { listPayments } from '../../payments/payment-list.ts'
import { setFlash } from '../../sessions/sessions.ts'
import type { FailedAct } from '../shell/acts.ts'
import { notFound } from '../shell/faults.ts'
import { blockOf } from '../shell/ledger-words.ts'
import { newestFrom } from '../shell/list-query.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import type { Draw } from '../shell/response.ts'
import { type InvoiceView, renderInvoicePage } from './invoice-page.ts'

const PATH = '/settings/invoices'
const ADMINS_ONLY = 'Only an Admin can act on invoices.'

export const invoicePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    handle: async (request, { database }) => show(await readInvoice(database.read, request)),
  },
  actPage('finalise', 'invoice_finalised', finaliseInvoice),
  actPage('resume', 'invoice_resumed', resumeInvoice),
  reasonedPage('void', 'invoice_voided', voidInvoice),
  reasonedPage('write-off', 'invoice_written_off', writeOffInvoice),
  reasonedPage('dispute', 'invoice_disputed', disputeInvoice),
  reasonedPage('resolve', 'invoice_resolved', resolveDispute),
]

function reasonedPage(name: string, flash: string, work: typeof voidInvoice): SessionPage {
  return actPage(
    name,
    flash,
    (tx, accountId, id, act, reason) => work(tx, accountId, id, reason, act),
    ['reason'],
  )
}

function actPage(
  name: string,
  flash: string,
  work: (
    tx: Transaction,
    accountId: string,
    id: string,
    act: Act,
    reason: string,
  ) => Promise<InvoiceRow>,
  texts: readonly string[] = [],
): SessionPage {
  return {
    method: 'POST',
    path: `${PATH}/{id}/${name}`,
    admins: ADMINS_ONLY,
    expected: { texts },
    async handle({ session, id, act, fields, now, wantsJson }, { database }) {
      const { id: accountId, timezone } = session.account
      const row = await database.transaction(async (tx) => {
        if (!wantsJson) await setFlash(tx, session.token, flash)
        return work(tx, accountId, id, act, fields.text('reason'))
      })
      return { json: renderInvoice(row, todayIn(timezone, now)), location: `${PATH}/${id}` }
    },
    async redraw(request, problem, { database }) {
      if (problem.code === 'not_found') return undefined
      const failed = { name, reason: request.fields.text('reason'), problem }
      return show(await readInvoice(database.read, request), failed).page
    },
  }
}

function show(view: InvoiceView, failed?: FailedAct) {
  const page: Draw = (frame) => renderInvoicePage(frame, view, failed)
  return { json: renderInvoice(view.row, view.today), page }
}

async function readInvoice(
  reader: Reader,
  { session, id, now }: Pick<SessionRequest, 'session' | 'id' | 'now'>,
): Promise<InvoiceView> {
  const { id: accountId, timezone } = session.account
  const row = (await findInvoice(reader, accountId, id)) ?? notFound('invoice', id)
  const newest = await newestFrom(undefined, 50, async () => undefined)
  const ofInvoice = { invoice_id: id }
  const [debtor, payments, messages] = await Promise.all([
    findDebtor(reader, accountId, row.debtor_id),
    listPayments(reader, accountId, ofInvoice, newest),
    listMessages(reader, accountId, ofInvoice, newest),
  ])
  const today = todayIn(timezone, now)
  const block = debtor && blockOf(debtor)
  return { session, now, today, row, customer: debtor?.name ?? '', block, payments, messages }
}
