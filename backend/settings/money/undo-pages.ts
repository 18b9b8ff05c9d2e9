/**
 * The pages that reverse a payment or take back an allocation: both request a reason and show the effects.
 */
import type { Problem } from '../../../shared/contract/problem.ts'
import { todayIn } from '../../calendar/calendar.ts'
import type { PaymentRow, Reader, Transaction } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { findPayment } from '../../payments/locked-payment.ts'
import { type Allocation, readAllocations } from '../../payments/payment-list.ts'
import { takeBackAllocation } from '../../payments/reallocation.ts'
import { renderPayment } from '../../payments/representation.ts'
import { reversePayment } from '../../payments/reversal.ts'
import { renderConfirmPage } from '../shell/confirm-page.ts'
import { notFound } from '../shell/faults.ts'
import { describedBy, renderFault } from '../shell/layout.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { Draw } from '../shell/response.ts'
import { previewEffects } from './effects.ts'
import { KEY, once, refuseReadOnly, renderKeyField } from './money-act.ts'
import { renderEffects } from './preview-page.ts'

const PATH = '/settings/payments'

interface Undoing {
  /** The last segment of the path and of the form's action. */
  readonly name: string
  readonly operation: string
  readonly admins: string
  readonly flash: string
  readonly title: string
  readonly button: string
  readonly hint: string
  readonly texts: readonly string[]
  perform(tx: Transaction, request: SessionRequest, reason: string): Promise<PaymentRow>
  /** Invoices that may be reopened. */
  reopened(allocations: readonly Allocation[], request: SessionRequest): readonly string[]
}

const REVERSE: Undoing = {
  name: 'reverse',
  operation: 'settings.reversePayment',
  admins: 'Only an Admin can reverse payments.',
  flash: 'payment_reversed',
  title: 'Reverse this payment?',
  button: 'Reverse payment',
  hint: 'For a payment that bounced or was recorded by mistake. The payment stays in the list. A reversal cannot be undone.',
  texts: [],
  perform: (tx, { session, id, act }, reason) =>
    reversePayment(tx, session.account.id, id, reason, act),
  reopened: (allocations) => allocations.map(({ invoice_id }) => invoice_id),
}

const TAKE_BACK: Undoing = {
  name: 'take-back',
  operation: 'settings.takeBackAllocation',
  admins: 'Only an Admin can take allocations back.',
  flash: 'payment_taken_back',
  title: 'Take this allocation back?',
  button: 'Take back',
  hint: 'The money goes back on account. You can allocate it to another invoice.',
  texts: ['invoice_id'],
  async perform(tx, request, reason) {
    const { session, id, act } = request
    const from = { invoiceId: invoiceOf(request), reason }
    return (await takeBackAllocation(tx, session.account.id, id, from, act)).payment
  },
  reopened: (_allocations, request) => [invoiceOf(request)],
}

export const undoPages: readonly SessionPage[] = [REVERSE, TAKE_BACK].flatMap(pagesOf)

function invoiceOf({ fields, query }: SessionRequest): string {
  return fields.text('invoice_id') || (query.get('invoice_id') ?? '')
}

function pagesOf(undoing: Undoing): SessionPage[] {
  const path = `${PATH}/{id}/${undoing.name}`
  const { admins, texts } = undoing
  return [
    {
      method: 'GET',
      path,
      admins,
      async handle(request, deps) {
        refuseReadOnly(request.session)
        return { page: await drawQuestion(undoing, request, deps) }
      },
    },
    {
      method: 'POST',
      path,
      admins,
      expected: { texts: ['reason', KEY, ...texts] },
      handle: (request, deps) =>
        once(request, deps, optionsOf(undoing), async (tx) => {
          const row = await undoing.perform(tx, request, request.fields.text('reason'))
          return represent(tx, row)
        }),
      async redraw(request, problem, deps) {
        if (problem.code !== 'validation_failed') return undefined
        return drawQuestion(undoing, request, deps, problem)
      },
    },
  ]
}

function optionsOf({ operation, flash }: Undoing) {
  return { operation, flash, isKeyOptional: true, location: (id: string) => `${PATH}/${id}` }
}

async function represent(reader: Reader, row: PaymentRow) {
  const allocations = await readAllocations(reader, row.account_id, [row.id])
  return renderPayment(row, allocations.get(row.id) ?? [])
}

async function drawQuestion(
  undoing: Undoing,
  request: SessionRequest,
  { database }: SettingsDeps,
  problem?: Problem,
): Promise<Draw> {
  const { session, id, now, fields } = request
  const { id: accountId, timezone } = session.account
  const payment = (await findPayment(database.read, accountId, id)) ?? notFound('payment', id)
  const allocations = (await readAllocations(database.read, accountId, [id])).get(id) ?? []
  const subject = {
    accountId,
    debtorId: payment.debtor_id,
    invoiceIds: undoing.reopened(allocations, request),
    today: todayIn(timezone, now),
    now,
  }
  // The effects do not depend on the reason, which is not known yet.
  const { effects } = await previewEffects(database, subject, (tx) =>
    undoing.perform(tx, request, 'foreseen'),
  )
  const hidden = undoing.texts.map(
    (name) => html`<input type="hidden" name="${name}" value="${invoiceOf(request)}">`,
  )
  return (frame) =>
    renderConfirmPage(frame, {
      title: undoing.title,
      place: '/settings/customers',
      back: { path: `${PATH}/${id}`, name: 'Payment' },
      consequences: html`<p>${undoing.hint}</p>${renderEffects(effects, timezone)}`,
      action: `${PATH}/${id}/${undoing.name}`,
      button: undoing.button,
      isDangerous: true,
      fields: renderFields(hidden, fields.text('reason'), problem),
      problem,
    })
}

function renderFields(hidden: readonly Html[], reason: string, problem: Problem | undefined): Html {
  return html`${renderKeyField()}${hidden}
<div class="field"><label for="reason">Reason</label>
<input id="reason" name="reason" value="${reason}" maxlength="500" autocomplete="off" required${describedBy(problem, 'reason')}>${renderFault(problem, 'reason')}</div>`
}
