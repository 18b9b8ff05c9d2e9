import { randomUUID } from 'node:crypto'
import { Problem } from '../../../shared/contract/problem.ts'
import { todayIn } from '../../calendar/calendar.ts'
import type { InvoiceRowWithOptionalLines, PaymentRow, Reader } from '../../database/tables.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { type Html, html } from '../../html/html.ts'
import { applyOldestFirst } from '../../payments/allocation.ts'
import { findPayment } from '../../payments/locked-payment.ts'
import { readAllocations } from '../../payments/payment-list.ts'
import { allocatePayment, type Reallocated } from '../../payments/reallocation.ts'
import { representPayment } from '../../payments/representation.ts'
import { readReversalTime } from '../../payments/reversal-time.ts'
import type { NewAllocation } from '../../payments/targets.ts'
import { IDEMPOTENCY_KEY_FIELD, renderIdempotencyKey } from '../forms/perform-once.ts'
import { notFound, rejectField } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import {
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import { dateWords, METHOD_WORDS, renderMoney } from '../shell/ledger-words.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import {
  ALLOCATION_FIELDS,
  allocationDefaults,
  parseAllocations,
  readAllocatableInvoices,
  renderAllocationFields,
} from './allocation-fields.ts'
import type { PreviewContext } from './effects.ts'
import { type MoneyAction, moneyActionPages, type Preview } from './money-action.ts'
import { renderPreviewPage } from './preview-page.ts'

const PATH = '/settings/payments'

interface LoadedPayment extends PreviewContext {
  readonly payment: PaymentRow
  /** The ids of the invoices to which part of the payment is already allocated. */
  readonly allocatedInvoiceIds: readonly string[]
  readonly customerName: string
  readonly invoices: readonly InvoiceRowWithOptionalLines[]
  readonly timezone: string
}

type AllocateInput = readonly NewAllocation[]

const action: MoneyAction<LoadedPayment, AllocateInput, Reallocated> = {
  paths: {
    form: `${PATH}/{id}/allocate`,
    preview: `${PATH}/{id}/allocate/preview`,
    edit: `${PATH}/{id}/allocate/edit`,
    action: `${PATH}/{id}/allocate`,
  },
  operation: 'settings.allocatePayment',
  adminsOnlyMessage: 'Only an Admin can allocate payments.',
  flash: 'payment_allocated',
  undo: ({ payment, allocatedInvoiceIds }, _done, allocations) => {
    const ids = allocations.map(({ invoiceId }) => invoiceId)
    // Undo takes back the whole allocation of the payment to each invoice in `ids`. If a part of such an
    // allocation is older than this action, undo would take back too much, so no undo is offered.
    if (ids.some((id) => allocatedInvoiceIds.includes(id))) return undefined
    const fields = allocations.flatMap(({ invoiceId, amount }) => [
      ['allocations/invoice_id', invoiceId] as const,
      ['allocations/amount', String(amount)] as const,
    ])
    return {
      path: `${PATH}/${payment.id}/undo-allocation`,
      fields: [...fields, [IDEMPOTENCY_KEY_FIELD, randomUUID()]],
    }
  },
  expected: ALLOCATION_FIELDS,
  load: loadPayment,
  defaults({ payment, invoices }) {
    const moneyOnAccount = { amount: payment.unapplied_amount }
    // The second argument, the shares that invoices already have of this money, is empty: money on account is not
    // allocated.
    const proposed = applyOldestFirst(moneyOnAccount, [], invoices)
    return allocationDefaults(
      invoices,
      ({ id }) => proposed.find(({ invoice }) => invoice.id === id)?.amount ?? 0,
    )
  },
  renderForm,
  parse({ payment, invoices }, fields: Fields) {
    const { currency, unapplied_amount: available } = payment
    const allocations = parseAllocations(fields, { invoices, currency, available })
    if (allocations.length > 0) return allocations
    return rejectField('allocations', 'Enter an amount for at least one invoice.')
  },
  perform: (tx, { actionContext }, { accountId, payment }, input) =>
    allocatePayment(tx, accountId, payment.id, input, actionContext),
  renderPreview,
  represent: (_loaded, { payment, allocations }) => representPayment(payment, allocations),
  location: (id) => `${PATH}/${id}`,
}

export const allocatePages: readonly SessionPage[] = moneyActionPages(action)

async function loadPayment(
  reader: Reader,
  { session, id, now }: SessionRequest,
): Promise<LoadedPayment> {
  const { id: accountId, timezone } = session.account
  const payment = (await findPayment(reader, accountId, id)) ?? notFound('payment', id)
  if (payment.status === 'reversed') {
    throw new Problem(
      'payment_already_reversed',
      'The payment was reversed, so none of it is on account.',
      { members: { reversed_at: await readReversalTime(reader, payment) } },
    )
  }
  const { debtor_id: debtorId, currency } = payment
  const existing = (await readAllocations(reader, accountId, [id])).get(id) ?? []
  return {
    allocatedInvoiceIds: existing.map(({ invoice_id }) => invoice_id),
    ...{ accountId, debtorId, payment, timezone, now },
    today: todayIn(timezone, now),
    customerName: (await findDebtor(reader, accountId, debtorId))?.name ?? '',
    invoices: await readAllocatableInvoices(reader, accountId, debtorId, currency),
  }
}

function backOf({ id }: PaymentRow) {
  return { path: `${PATH}/${id}`, name: 'Payment' }
}

function renderForm(
  frame: Frame,
  { payment, customerName, invoices, today }: LoadedPayment,
  entered: Fields,
  problem: Problem | undefined,
): Html {
  const back = backOf(payment)
  const title = 'Allocate money on account'
  const onAccount = renderMoney(payment.unapplied_amount, payment.currency)
  const isAllocationPossible = invoices.length > 0 && payment.unapplied_amount > 0
  const main = html`<p class="back"><a href="${back.path}">${back.name}</a></p>
<h1>${title}</h1>
<p class="lead">${onAccount} of the payment that was received from <span translate="no">${customerName}</span> on ${dateWords(payment.received_on)} is on account.</p>
${renderFaultSummary(problem)}
${
  isAllocationPossible
    ? html`<form method="post" action="${back.path}/allocate/preview" class="stack" novalidate>${renderCommonHiddenFields(frame)}${renderIdempotencyKey(entered)}
<fieldset class="card" id="allocations"><legend class="title">Open invoices</legend>
<p class="hint">The oldest invoices are proposed. Change the amounts as you like. Money that you do not allocate stays on account.</p>
${renderFieldFaults(problem, 'allocations')}${renderAllocationFields(invoices, today, entered, problem)}</fieldset>
<p class="row"><button class="primary">Preview</button> <a class="button" href="${back.path}">Cancel</a></p></form>`
    : html`<p class="card hint">${payment.unapplied_amount === 0 ? 'The whole payment is allocated.' : `The customer owes nothing in ${payment.currency}.`}</p><p><a class="button" href="${back.path}">Back</a></p>`
}`
  return renderPage(frame, { title, section: '/settings/customers', main })
}

function renderPreview(
  frame: Frame,
  { loaded, input, effects, hidden }: Preview<LoadedPayment, AllocateInput>,
): Html {
  const { payment, customerName, timezone } = loaded
  const sum = input.reduce((total, { amount }) => total + amount, 0)
  const path = `${PATH}/${payment.id}/allocate`
  return renderPreviewPage(frame, {
    title: 'Allocate this money?',
    back: backOf(payment),
    facts: [
      ['Customer', customerName],
      [
        'Payment',
        html`${renderMoney(payment.amount, payment.currency)}, ${METHOD_WORDS[payment.method]}`,
      ],
      ['Received on', dateWords(payment.received_on)],
      ['Amount to allocate', renderMoney(sum, payment.currency)],
    ],
    effects,
    timezone,
    action: path,
    editAction: `${path}/edit`,
    button: 'Allocate',
    hidden,
  })
}
