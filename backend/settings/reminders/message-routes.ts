/** The routes of the message log, which includes messages that were not sent. */
import { findLogo } from '../../accounts/logo.ts'
import { REMINDER_STAGES } from '../../database/tables/messages.ts'
import type { MessageRow, Reader } from '../../database/tables.ts'
import { findInvoice, findInvoices } from '../../invoices/invoices.ts'
import { embedLogo } from '../../mail/wording/mail-body.ts'
import { countAwaitingApproval } from '../../messages/approval-log.ts'
import {
  findMessage,
  findMessageHtml,
  listMessages,
  readInvoiceIdsByMessage,
} from '../../messages/messages.ts'
import { representMessage } from '../../messages/representation.ts'
import { readStatusHistory } from '../../reminders/approvals.ts'
import { notFound } from '../shell/faults.ts'
import { choiceOf, listOf, newestFirstAfter, pageOf, parseListQuery } from '../shell/list-query.ts'
import type { SessionPage } from '../shell/page-request.ts'
import { readCustomerNames } from '../shell/row-customers.ts'
import { MESSAGE_HTML_PATH } from '../shell/security-headers.ts'
import { LOG_REASONS, LOG_VIEWS, renderLog, STATUSES_OF_VIEW } from './log-page.ts'
import { renderMessagePage } from './message-page.ts'

const PATH = '/settings/messages'

export const messagePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session, query, now }, { database: { read } }) {
      const { id: accountId, timezone } = session.account
      const list = parseListQuery(query, [
        ...['view', 'stage', 'reason'],
        ...['debtor_id', 'invoice_id'],
      ])
      const filters = {
        view: choiceOf(list, 'view', LOG_VIEWS),
        stage: choiceOf(list, 'stage', REMINDER_STAGES),
        reason: choiceOf(list, 'reason', LOG_REASONS),
        debtor_id: list.value('debtor_id'),
        invoice_id: list.value('invoice_id'),
      }
      const page = await newestFirstAfter(list.cursor, list.limit, (id) =>
        findMessage(read, accountId, id),
      )
      const { view, stage, reason, debtor_id, invoice_id } = filters
      const search = {
        ...(view !== undefined && { statuses: STATUSES_OF_VIEW[view] }),
        // Only suppressed messages have a reason. The filter by status lets the database use its index of statuses.
        ...(view === undefined && reason !== undefined && { statuses: ['suppressed'] }),
        ...(stage !== undefined && { stage }),
        ...(reason !== undefined && { suppression_reason: reason }),
        ...(debtor_id !== undefined && { debtor_id }),
        ...(invoice_id !== undefined && { invoice_id }),
      }
      const found = await listMessages(read, accountId, search, page)
      const { rows, next } = pageOf(found, list.limit)
      // The page names the customer of the filter even if no message matches.
      const rowsWithDebtor = debtor_id === undefined ? rows : [...rows, { debtor_id }]
      const customers = await readCustomerNames(read, accountId, rowsWithDebtor)
      const invoice =
        invoice_id === undefined ? undefined : await findInvoice(read, accountId, invoice_id)
      const awaitingApproval = await countAwaitingApproval(read, accountId)
      const times = { now, timezone }
      const limit = list.value('limit')
      return {
        json: listOf(await represent(read, accountId, rows), next),
        page: (frame) =>
          renderLog(frame, {
            ...{ rows, limit, next, filters, customers, invoice, awaitingApproval, times },
          }),
      }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    async handle({ session, id, now }, { database: { read } }) {
      const { id: accountId } = session.account
      const row = (await findMessage(read, accountId, id)) ?? notFound('message', id)
      const invoiceIds = (await readInvoiceIdsByMessage(read, accountId, [id])).get(id) ?? []
      const [invoices, history, names, messageHtml] = await Promise.all([
        invoiceIds.length === 0 ? [] : findInvoices(read, accountId, invoiceIds),
        readStatusHistory(read, accountId, id),
        readCustomerNames(read, accountId, [row]),
        findMessageHtml(read, accountId, id),
      ])
      const view = {
        ...{ session, row, invoices, history, now },
        customerName: names.get(row.debtor_id) ?? '',
        hasHtml: messageHtml !== undefined,
      }
      return {
        json: {
          ...representMessage(row, invoiceIds),
          body: row.body,
          history: history.map(({ status, detail, created_at }) => ({
            status,
            detail,
            created_at,
          })),
        },
        page: (frame) => renderMessagePage(frame, view),
      }
    },
  },
  {
    method: 'GET',
    path: MESSAGE_HTML_PATH,
    async handle({ session, id }, { database: { read } }) {
      // The security headers prevent scripts and requests in this document.
      const { id: accountId } = session.account
      const message = (await findMessageHtml(read, accountId, id)) ?? notFound('message', id)
      return {
        document: embedLogo(message.html, await findLogo(read, accountId, message.logo_id)),
      }
    },
  },
]

async function represent(reader: Reader, accountId: string, rows: readonly MessageRow[]) {
  const ids = rows.map(({ id }) => id)
  const invoiceIdsByMessage = await readInvoiceIdsByMessage(reader, accountId, ids)
  return rows.map((row) => representMessage(row, invoiceIdsByMessage.get(row.id) ?? []))
}
