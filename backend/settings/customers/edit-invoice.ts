import type { Problem } from '../../../shared/contract/problem.ts'
import { todayIn } from '../../calendar/calendar.ts'
import type { InvoiceRow, Reader } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { editInvoice, type InvoiceEdit } from '../../invoices/edit-invoice.ts'
import { invoiceEditBody } from '../../invoices/invoice-body.ts'
import { findInvoice } from '../../invoices/invoices.ts'
import { representInvoice } from '../../invoices/representation.ts'
import { validateBody } from '../../validation/body.ts'
import { notFound, rejectIfReadOnly, withFieldLabels } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import {
  renderCommonHiddenFields,
  renderFaultSummary,
  renderInitialValues,
  renderPage,
} from '../shell/layout.ts'
import { EDIT_METHODS, type SessionPage, type SessionRequest } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { type Field, renderField } from './customer-form-page.ts'

const PATH = '/settings/invoices/{id}'
const ADMINS_ONLY = 'Only an Admin can change invoices.'
const LABELS: Readonly<Record<string, string>> = {
  due_date: 'Due on',
  po_number: 'Purchase order',
  notes: 'Notes',
  payment_url: 'Payment link',
}
const FIELDS = Object.keys(LABELS)

export const editInvoicePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: `${PATH}/edit`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle(request, { database }) {
      rejectIfReadOnly(request.session)
      const row = await readInvoice(database.read, request)
      return { page: (frame) => renderForm(frame, row, {}) }
    },
  },
  {
    method: EDIT_METHODS,
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: { texts: FIELDS, ignoresUnchangedFields: true },
    async handle({ session, id, actionContext, fields, now, performAction }) {
      rejectIfReadOnly(session)
      const { id: accountId, timezone } = session.account
      const edit = parseEdit(fields)
      const row = await performAction('invoice_edited', (tx) =>
        editInvoice(tx, accountId, id, edit, actionContext),
      )
      const json = representInvoice(row, todayIn(timezone, now))
      return { json, location: `/settings/invoices/${id}` }
    },
    async rerender(request, problem, { database }) {
      if (problem.code !== 'validation_failed') return undefined
      const row = await readInvoice(database.read, request)
      const labeled = withFieldLabels(problem, LABELS)
      return (frame) => renderForm(frame, row, sentValues(request.fields), labeled)
    },
  },
]

function sentValues(fields: Fields): Readonly<Record<string, string>> {
  const given = FIELDS.filter((name) => fields.has(name))
  return Object.fromEntries(given.map((name) => [name, fields.text(name).trim()]))
}

function parseEdit(fields: Fields): InvoiceEdit {
  const body = validateBody(invoiceEditBody, fields.filledTexts(FIELDS))
  // A field that was not sent changes nothing. An empty field removes the value, except that an empty due date changes
  // nothing: every invoice has a due date.
  const changeOf = (name: string, value: string | undefined) =>
    fields.has(name) ? { value: value ?? null } : undefined
  const poNumber = changeOf('po_number', body.po_number)
  const notes = changeOf('notes', body.notes)
  const paymentUrl = changeOf('payment_url', body.payment_url)
  return {
    ...(body.due_date !== undefined && { dueDate: body.due_date }),
    ...(poNumber && { poNumber: poNumber.value }),
    ...(notes && { notes: notes.value }),
    ...(paymentUrl && { paymentUrl: paymentUrl.value }),
  }
}

async function readInvoice(reader: Reader, { session, id }: SessionRequest): Promise<InvoiceRow> {
  return (await findInvoice(reader, session.account.id, id)) ?? notFound('invoice', id)
}

function valuesOf(row: InvoiceRow): Readonly<Record<string, string>> {
  const { due_date, po_number, notes, payment_url } = row
  return {
    due_date,
    po_number: po_number ?? '',
    notes: notes ?? '',
    payment_url: payment_url ?? '',
  }
}

function renderForm(
  frame: Frame,
  row: InvoiceRow,
  entered: Readonly<Record<string, string>>,
  problem?: Problem,
): Html {
  const path = `/settings/invoices/${row.id}`
  const stored = valuesOf(row)
  const field = (name: string, hint?: string, type?: Field['type']) => {
    const value = entered[name] ?? stored[name] ?? ''
    return renderField({ name, hint, type }, LABELS[name] ?? name, value, problem)
  }
  const main = html`<p class="back"><a href="${path}">Invoice <span translate="no">${row.number}</span></a></p>
<h1>Change invoice <span translate="no">${row.number}</span></h1>
<p class="lead">Waiting reminders about this invoice are rewritten. To lower the amount, credit the invoice.</p>
${renderFaultSummary(problem)}
<form method="post" action="${path}" class="card stack" data-once novalidate>${renderCommonHiddenFields(frame)}${renderInitialValues(stored)}
<div class="fields">${field('due_date', undefined, 'date')}${field('po_number')}${field('payment_url', 'An https address where the invoice can be paid.')}${field('notes', undefined, 'lines')}</div>
<p class="row"><button class="primary">Save</button> <a class="button" href="${path}">Cancel</a></p></form>`
  return renderPage(frame, {
    title: `Change invoice ${row.number}`,
    section: '/settings/customers',
    main,
  })
}
