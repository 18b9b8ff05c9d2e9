import type { Problem } from '../../../shared/contract/problem.ts'
import { getAccount } from '../../accounts/accounts.ts'
import { recordAudit } from '../../accounts/audit.ts'
import { todayIn } from '../../calendar/calendar.ts'
import type { DebtorRow, Reader } from '../../database/tables.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import { invoiceBody, newInvoice } from '../../invoices/invoice-body.ts'
import { createInvoice } from '../../invoices/invoices.ts'
import { representInvoice } from '../../invoices/representation.ts'
import { parseCurrency } from '../../money/money.ts'
import { validateBody } from '../../validation/body.ts'
import type { JsonObject } from '../../validation/json.ts'
import {
  IDEMPOTENCY_KEY_FIELD,
  type OnceOptions,
  performOnce,
  renderIdempotencyKey,
} from '../forms/perform-once.ts'
import { readAmountText } from '../money/amount-field.ts'
import { renderPickCustomer } from '../money/pick-customer-page.ts'
import { notFound, rejectField, rejectIfReadOnly, withFieldLabels } from '../shell/faults.ts'
import { type Fields, fieldsOf } from '../shell/fields.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { renderField } from './customer-form-page.ts'

const PATH = '/settings/invoices'
const ADMINS_ONLY = 'Only an Admin can enter invoices.'

const LABELS: Readonly<Record<string, string>> = {
  debtor_id: 'The customer',
  number: 'Number',
  amount: 'Amount',
  currency: 'Currency',
  issue_date: 'Issued on',
  due_date: 'Due on',
  po_number: 'Purchase order',
  notes: 'Notes',
  payment_url: 'Payment link',
  external_id: 'External ID',
  status: 'Status',
}

const TEXT_FIELDS = Object.keys(LABELS).filter((name) => name !== 'amount')

export const newInvoicePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: `${PATH}/new`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle(request, { database }) {
      const { session, query, now } = request
      rejectIfReadOnly(session)
      if (!query.has('debtor_id')) {
        return renderPickCustomer(database, request, query.get('q')?.trim() ?? '', {
          title: 'Enter an invoice',
          question: 'Which customer owes the invoice?',
          path: `${PATH}/new`,
        })
      }
      const debtor = await readDebtor(database.read, request)
      const today = todayIn(session.account.timezone, now)
      const { default_currency } = await getAccount(database.read, session.account.id)
      const currency = debtor.currency ?? default_currency
      const defaults = fieldsOf({ issue_date: today, currency })
      return { page: (frame) => renderForm(frame, debtor, defaults, undefined) }
    },
  },
  {
    method: 'POST',
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: {
      texts: [...TEXT_FIELDS, 'chase_if_overdue', IDEMPOTENCY_KEY_FIELD],
      numbers: ['amount'],
    },
    async handle(request, deps) {
      const { session, actionContext, now, fields } = request
      const { id: accountId, timezone } = session.account
      const today = todayIn(timezone, now)
      const response = await performOnce(request, deps, CREATION, async (tx) => {
        // Throws `not_found`. Without this call, `createInvoice` would report that `debtor_id` is invalid, but a person
        // cannot correct this hidden field of the form.
        await readDebtor(tx, request)
        const input = newInvoice(validateBody(invoiceBody, bodyOf(fields), today))
        const { payment_terms_days: paymentTermsDays } = await getAccount(tx, accountId)
        const row = await createInvoice(tx, { accountId, timezone, paymentTermsDays }, input, now)
        const { number, amount, currency } = row
        await recordAudit(tx, actionContext, {
          accountId,
          action: 'invoice.created',
          subjectId: row.id,
          detail: { number, amount, currency },
        })
        return representInvoice(row, today)
      })
      return { status: 201, ...response }
    },
    async rerender(request, problem, { database }) {
      // In the form, a person can correct invalid and duplicate values, but not, for example, a reused idempotency key.
      if (![409, 422].includes(problem.status) || problem.code.startsWith('idempotency')) {
        return undefined
      }
      const debtor = await readDebtor(database.read, request)
      const labeled = withFieldLabels(problem, LABELS)
      return (frame) => renderForm(frame, debtor, request.fields, labeled)
    },
  },
]

const CREATION: OnceOptions = {
  operation: 'settings.createInvoice',
  flash: 'invoice_created',
  location: (id: string) => `${PATH}/${id}`,
}

async function readDebtor(
  reader: Reader,
  { session, fields, query }: SessionRequest,
): Promise<DebtorRow> {
  const id = fields.text('debtor_id') || (query.get('debtor_id') ?? '')
  return (await findDebtor(reader, session.account.id, id)) ?? notFound('customer', id)
}

function bodyOf(fields: Fields): JsonObject {
  const chase = fields.text('chase_if_overdue') || 'true'
  if (chase !== 'true' && chase !== 'false')
    rejectField('chase_if_overdue', 'chase_if_overdue must be true or false.', 'invalid_enum')
  return {
    ...fields.filledTexts(TEXT_FIELDS),
    amount: amountOf(fields),
    chase_if_overdue: chase === 'true',
  }
}

function amountOf(fields: Fields): number {
  const text = fields.text('amount').trim()
  const currency = parseCurrency(fields.text('currency').trim())
  if (currency === undefined)
    rejectField('currency', 'Currency must be a three-letter ISO 4217 code, e.g. EUR.')
  if (text === '') rejectField('amount', 'Enter the amount.')
  const amountOrFault = fields.isJson ? Number(text) : readAmountText(text, currency)
  if (typeof amountOrFault === 'string') rejectField('amount', `The amount ${amountOrFault}.`)
  return amountOrFault
}

function renderForm(
  frame: Frame,
  debtor: DebtorRow,
  entered: Fields,
  problem: Problem | undefined,
): Html {
  const back = `/settings/customers/${debtor.id}`
  const field = (name: string, hint?: string, type?: 'date') =>
    renderField({ name, hint, type }, LABELS[name] ?? name, entered.text(name), problem)
  const status = entered.text('status')
  const main = html`<p class="back"><a href="${back}" translate="no">${debtor.name}</a></p>
<h1>Enter an invoice</h1>
${renderFaultSummary(problem)}
<form method="post" action="${PATH}" class="card stack" data-once novalidate>${renderCommonHiddenFields(frame)}${renderIdempotencyKey(entered)}
<input type="hidden" name="debtor_id" value="${debtor.id}">
<div class="fields">
<div class="field"><label for="amount">Amount, including tax</label>
<input id="amount" name="amount" value="${entered.text('amount')}" inputmode="decimal" autocomplete="off" required class="sum-field"${describedBy(problem, 'amount')}>${renderFieldFaults(problem, 'amount')}</div>
${field('currency')}
${field('number', 'Leave empty to use your next invoice number.')}
${field('issue_date', undefined, 'date')}
${field('due_date', 'Leave empty to use the payment terms.', 'date')}
<div class="field"><label for="invoice-status">Status</label>
<select id="invoice-status" name="status"><option value="open"${attribute('selected', status !== 'draft')}>Open: owed, and reminders are sent</option><option value="draft"${attribute('selected', status === 'draft')}>Draft: to be finalized later</option></select></div>
</div>
<details${problem !== undefined && html` open`}><summary>More details</summary><div class="fields">
${field('po_number')}${field('external_id', 'The invoice’s ID in your own system, without spaces.')}${field('payment_url', 'An https address where the invoice can be paid.')}${field('notes')}
<div class="field"><label for="chase">If the invoice is already past due</label>
<select id="chase" name="chase_if_overdue"><option value="true">Send reminders</option><option value="false"${attribute('selected', entered.text('chase_if_overdue') === 'false')}>Do not send reminders</option></select></div>
</div></details>
<p class="row"><button class="primary">Enter invoice</button> <a class="button" href="${back}">Cancel</a></p>
</form>`
  return renderPage(frame, {
    title: `Enter an invoice for ${debtor.name}`,
    section: '/settings/customers',
    main,
  })
}
