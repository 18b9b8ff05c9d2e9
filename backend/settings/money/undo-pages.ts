/**
 * The pages that reverse a payment or take back an allocation: both request a reason and show the effects. Also handles
 * the requests of the Undo button, which takes back a new allocation, or restores one that was taken back.
 */
import { randomUUID } from 'node:crypto'
import type { Problem } from '../../../shared/contract/problem.ts'
import { todayIn } from '../../calendar/calendar.ts'
import type { PaymentRow, Reader, Transaction } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { findPayment, lockUnreversedPayment } from '../../payments/locked-payment.ts'
import { type Allocation, readAllocations } from '../../payments/payment-list.ts'
import { allocatePayment, takeBackAllocation } from '../../payments/reallocation.ts'
import { representPayment } from '../../payments/representation.ts'
import { reversePayment } from '../../payments/reversal.ts'
import type { Undo } from '../../sessions/flash.ts'
import {
  IDEMPOTENCY_KEY_FIELD,
  type OnceOptions,
  performOnce,
  renderIdempotencyKey,
} from '../forms/perform-once.ts'
import { renderConfirmPage } from '../shell/confirm-page.ts'
import { notFound, rejectField, rejectIfReadOnly } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import type { FlashName } from '../shell/flash-words.ts'
import { describedBy, renderFieldFaults, renderHidden } from '../shell/layout.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { RenderPage } from '../shell/response.ts'
import { ALLOCATION_FIELDS } from './allocation-fields.ts'
import { previewEffects } from './effects.ts'
import { renderEffects } from './preview-page.ts'

const PATH = '/settings/payments'

interface PaymentAction {
  /** The last segment of the page's path, to which the form is also sent. */
  readonly name: string
  /** The name of the action, which is stored with the idempotency key, so it must never change. */
  readonly operation: string
  readonly adminsOnlyMessage: string
  readonly flash: FlashName
  readonly title: string
  readonly button: string
  readonly hint: string
  /** The hidden field with the invoice, if the action concerns one allocation. */
  readonly hiddenFields: readonly 'invoice_id'[]
  perform(tx: Transaction, request: SessionRequest, reason: string): Promise<PaymentRow>
  /** Returns the request that undoes the action, given the payment's allocations before the action. */
  undo?(allocations: readonly Allocation[], request: SessionRequest): Undo | undefined
  /** Returns the ids of the invoices that the action may reopen, given the payment's allocations. */
  invoicesToReopen(allocations: readonly Allocation[], request: SessionRequest): readonly string[]
}

const REVERSE: PaymentAction = {
  name: 'reverse',
  operation: 'settings.reversePayment',
  adminsOnlyMessage: 'Only an Admin can reverse payments.',
  flash: 'payment_reversed',
  title: 'Reverse this payment?',
  button: 'Reverse payment',
  hint: 'Reverse a payment that bounced or was recorded by mistake. The payment stays in the list, marked as reversed. A reversal cannot be undone.',
  hiddenFields: [],
  perform: (tx, { session, id, actionContext }, reason) =>
    reversePayment(tx, session.account.id, id, reason, actionContext),
  invoicesToReopen: (allocations) => allocations.map(({ invoice_id }) => invoice_id),
}

const TAKE_BACK: PaymentAction = {
  name: 'take-back',
  operation: 'settings.takeBackAllocation',
  adminsOnlyMessage: 'Only an Admin can take allocations back.',
  flash: 'payment_taken_back',
  title: 'Take this allocation back?',
  button: 'Take back',
  hint: 'The money goes back on account. You can allocate it to another invoice.',
  hiddenFields: ['invoice_id'],
  async perform(tx, request, reason) {
    const { session, id, actionContext } = request
    const from = { invoiceId: invoiceIdOf(request), reason }
    return (await takeBackAllocation(tx, session.account.id, id, from, actionContext)).payment
  },
  undo(allocations, request) {
    const taken = allocations.find(({ invoice_id }) => invoice_id === invoiceIdOf(request))
    if (taken === undefined) return undefined
    return {
      path: `${PATH}/${request.id}/redo-allocation`,
      fields: [
        ['invoice_id', taken.invoice_id],
        ['amount', String(taken.amount)],
        [IDEMPOTENCY_KEY_FIELD, randomUUID()],
      ],
    }
  },
  invoicesToReopen: (_allocations, request) => [invoiceIdOf(request)],
}

export const undoPages: readonly SessionPage[] = [
  ...[REVERSE, TAKE_BACK].flatMap(pagesOf),
  {
    method: 'POST',
    path: `${PATH}/{id}/undo-allocation`,
    adminsOnlyMessage: TAKE_BACK.adminsOnlyMessage,
    expected: { texts: [IDEMPOTENCY_KEY_FIELD], ...ALLOCATION_FIELDS },
    handle: (request, deps) =>
      performOnce(request, deps, UNDO_ALLOCATION, (tx) => undoAllocation(tx, request)),
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/redo-allocation`,
    adminsOnlyMessage: TAKE_BACK.adminsOnlyMessage,
    expected: { texts: ['invoice_id', IDEMPOTENCY_KEY_FIELD], numbers: ['amount'] },
    handle: (request, deps) =>
      performOnce(request, deps, REDO_ALLOCATION, (tx) => redoAllocation(tx, request)),
  },
]

const UNDO_ALLOCATION: OnceOptions = {
  operation: 'settings.undoAllocation',
  flash: 'payment_taken_back',
  location: (id: string) => `${PATH}/${id}`,
}

/** Takes back the allocations that were just made. Rejects the request if one of them was changed or removed since. */
async function undoAllocation(
  tx: Transaction,
  { session, id, fields, actionContext }: SessionRequest,
) {
  const { id: accountId } = session.account
  const allocated = await lockAllocations(tx, accountId, id)
  for (const { invoice_id: invoiceId, amount } of fields.rows(
    'allocations',
    'invoice_id',
    'amount',
  )) {
    const current = allocated.find(({ invoice_id }) => invoice_id === invoiceId)
    if (current !== undefined && String(current.amount) !== amount) {
      rejectField(
        'allocations',
        'The allocation to this invoice has changed in the meantime. Take it back on the page of the payment.',
      )
    }
    // Throws if the allocation has been removed.
    await takeBackAllocation(tx, accountId, id, { invoiceId, reason: UNDONE }, actionContext)
  }
  const row = (await findPayment(tx, accountId, id)) ?? notFound('payment', id)
  return represent(tx, row)
}

async function lockAllocations(
  tx: Transaction,
  accountId: string,
  id: string,
): Promise<readonly Allocation[]> {
  await lockUnreversedPayment(tx, accountId, id)
  return (await readAllocations(tx, accountId, [id])).get(id) ?? []
}

const REDO_ALLOCATION: OnceOptions = {
  operation: 'settings.redoAllocation',
  flash: 'payment_allocated',
  location: (id: string) => `${PATH}/${id}`,
}

/** Repeats an allocation that was just taken back. The amount in the form is in minor units. */
async function redoAllocation(
  tx: Transaction,
  { session, id, fields, actionContext }: SessionRequest,
) {
  const repeated = [{ invoiceId: fields.text('invoice_id'), amount: Number(fields.text('amount')) }]
  const { payment, allocations } = await allocatePayment(
    tx,
    session.account.id,
    id,
    repeated,
    actionContext,
  )
  return representPayment(payment, allocations)
}

/** The reason that the audit log records for an allocation that was undone. */
const UNDONE = 'Undone'

/** The form contains the invoice's id as a field; the link to the page contains it in the query. */
function invoiceIdOf({ fields, query }: SessionRequest): string {
  return fields.text('invoice_id') || (query.get('invoice_id') ?? '')
}

function pagesOf(action: PaymentAction): SessionPage[] {
  const path = `${PATH}/{id}/${action.name}`
  const { adminsOnlyMessage, hiddenFields } = action
  return [
    {
      method: 'GET',
      path,
      adminsOnlyMessage,
      async handle(request, deps) {
        rejectIfReadOnly(request.session)
        return { page: await renderQuestion(action, request, deps) }
      },
    },
    {
      method: 'POST',
      path,
      adminsOnlyMessage,
      expected: { texts: ['reason', IDEMPOTENCY_KEY_FIELD, ...hiddenFields] },
      handle(request, deps) {
        let undo: Undo | undefined
        const options = { ...optionsOf(action), undo: () => undo }
        return performOnce(request, deps, options, async (tx) => {
          const before = await lockAllocations(tx, request.session.account.id, request.id)
          const row = await action.perform(tx, request, request.fields.text('reason'))
          undo = action.undo?.(before, request)
          return represent(tx, row)
        })
      },
      async rerender(request, problem, deps) {
        if (problem.code !== 'validation_failed') return undefined
        return renderQuestion(action, request, deps, problem)
      },
    },
  ]
}

/**
 * The idempotency key is optional, because a repeated request without it is rejected anyway: the payment is already
 * reversed, or the allocation is gone.
 */
function optionsOf({ operation, flash }: PaymentAction) {
  return { operation, flash, isKeyOptional: true, location: (id: string) => `${PATH}/${id}` }
}

async function represent(reader: Reader, row: PaymentRow) {
  const allocations = await readAllocations(reader, row.account_id, [row.id])
  return representPayment(row, allocations.get(row.id) ?? [])
}

async function renderQuestion(
  action: PaymentAction,
  request: SessionRequest,
  { database }: SettingsDeps,
  problem?: Problem,
): Promise<RenderPage> {
  const { session, id, now, fields } = request
  const { id: accountId, timezone } = session.account
  const payment = (await findPayment(database.read, accountId, id)) ?? notFound('payment', id)
  const allocations = (await readAllocations(database.read, accountId, [id])).get(id) ?? []
  const context = {
    accountId,
    debtorId: payment.debtor_id,
    invoiceIds: action.invoicesToReopen(allocations, request),
    today: todayIn(timezone, now),
    now,
  }
  // `previewEffects` rolls back everything that `perform` writes. The reason is not known yet, and the effects do not
  // depend on it.
  const effects = await previewEffects(database, context, (tx) =>
    action.perform(tx, request, 'preview'),
  )
  const hidden = action.hiddenFields.map((name) => renderHidden(name, invoiceIdOf(request)))
  return (frame) =>
    renderConfirmPage(frame, {
      title: action.title,
      section: '/settings/customers',
      back: { path: `${PATH}/${id}`, name: 'Payment' },
      consequences: html`<p>${action.hint}</p>${renderEffects(effects, timezone)}`,
      action: `${PATH}/${id}/${action.name}`,
      button: action.button,
      isDangerous: true,
      fields: renderFields(hidden, fields, problem),
      problem,
    })
}

function renderFields(hidden: readonly Html[], fields: Fields, problem: Problem | undefined): Html {
  return html`${renderIdempotencyKey(fields)}${hidden}
<div class="field"><label for="reason">Reason</label>
<input id="reason" name="reason" value="${fields.text('reason')}" maxlength="500" autocomplete="off" required${describedBy(problem, 'reason')}>${renderFieldFaults(problem, 'reason')}</div>`
}
