/** The page of invoices that were past due when they were created. An Admin can resume reminders about them. */
import type { Database } from '../../database/database.ts'
import { type Html, html } from '../../html/html.ts'
import { resumeOldInvoicesOf } from '../../invoices/actions.ts'
import {
  listDebtorsWithOldInvoices,
  type OldInvoices,
  readOldInvoices,
} from '../../invoices/old-invoices.ts'
import { setFlash } from '../../sessions/flash.ts'
import { rejectIfReadOnly } from '../shell/faults.ts'
import { renderCommonHiddenFields, renderPage } from '../shell/layout.ts'
import { renderMoney } from '../shell/ledger-words.ts'
import {
  type SessionPage,
  type SessionRequest,
  type SettingsDeps,
  startTimeLimit,
} from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { plural } from '../shell/words.ts'

const PATH = '/settings/old-invoices'
const SECTION = '/settings/reminders'
const ADMINS_ONLY = 'Only an Admin can resume reminders about old invoices.'

const DEBTORS_PER_QUERY = 50

export const oldInvoicePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session }, { database }) {
      const old = await readOldInvoices(database.read, session.account.id)
      const isAdmin = session.user.role === 'admin'
      return { json: represent(old), page: (frame) => renderOldInvoices(frame, old, { isAdmin }) }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/chase`,
    adminsOnlyMessage: ADMINS_ONLY,
    // The number of invoices about which earlier requests of the same form have resumed reminders.
    expected: { texts: ['chased'] },
    async handle(request, deps) {
      const { session, fields, wantsJson } = request
      const { database } = deps
      rejectIfReadOnly(session)
      const { resumed, isComplete } = await resumeOldInvoices(request, deps)
      const json = { object: 'old_invoices_chased', chased: resumed, complete: isComplete }
      if (wantsJson) return { json }
      if (isComplete) {
        await database.transaction((tx) => setFlash(tx, session.token, 'old_invoices_chased'))
        return { json, location: SECTION }
      }
      const old = await readOldInvoices(database.read, session.account.id)
      const resumedSoFar = resumed + Math.max(0, fields.number('chased') || 0)
      return {
        json,
        page: (frame) => renderOldInvoices(frame, old, { isAdmin: true, resumedSoFar }),
      }
    },
  },
]

/** Resumes reminders in one transaction for each customer, until the time for one request is used up. */
async function resumeOldInvoices(
  { session, actionContext }: SessionRequest,
  { database, clock }: SettingsDeps,
) {
  const { id: accountId } = session.account
  const isTimeOver = startTimeLimit(clock, actionContext.now)
  let resumed = 0
  for await (const debtorId of debtorsWithOldInvoices(database, accountId)) {
    if (isTimeOver()) return { resumed, isComplete: false }
    resumed += await database.transaction((tx) =>
      resumeOldInvoicesOf(tx, accountId, debtorId, actionContext),
    )
  }
  return { resumed, isComplete: true }
}

async function* debtorsWithOldInvoices({ read }: Database, accountId: string) {
  for (let after = ''; ; ) {
    const ids = await listDebtorsWithOldInvoices(read, accountId, {
      after,
      limit: DEBTORS_PER_QUERY,
    })
    yield* ids
    const last = ids.at(-1)
    if (last === undefined) return
    after = last
  }
}

function represent({ invoices, hasMore, customers, due }: OldInvoices) {
  return {
    object: 'old_invoices',
    invoices,
    customers,
    has_more: hasMore,
    due: [...due].map(([currency, amount]) => ({ currency, amount })),
  }
}

interface View {
  readonly isAdmin: boolean
  /** The number of invoices for which reminders have been resumed so far; undefined before the first request. */
  readonly resumedSoFar?: number
}

function renderOldInvoices(frame: Frame, old: OldInvoices, { isAdmin, resumedSoFar }: View): Html {
  const { invoices, hasMore, customers, due } = old
  const atLeast = hasMore ? 'At least ' : ''
  const main = html`<p class="back"><a href="${SECTION}">Reminders</a></p>
<h1>Old invoices</h1>
<p class="lead">These invoices were already past due when they were created, for example by an import. No reminder is sent about them
until an Admin resumes reminders.</p>
${
  invoices === 0
    ? html`<div class="card empty"><p><strong>There are no old invoices.</strong></p>
<p class="hint">Reminders are sent about all open invoices that nothing else blocks.</p></div>`
    : html`<dl class="figures"><div><dt>Invoices</dt><dd>${atLeast}${invoices.toLocaleString('en')}</dd></div>
<div><dt>Customers</dt><dd>${atLeast}${customers.toLocaleString('en')}</dd></div>
${[...due].map(([currency, amount]) => html`<div><dt>Due in ${currency}</dt><dd>${atLeast}${renderMoney(amount, currency)}</dd></div>`)}</dl>
${isAdmin && renderForm(frame, resumedSoFar)}
<p class="hint">To resume reminders about a single invoice, open its page from the list of <a href="/settings/invoices?view=overdue">overdue invoices</a>.</p>`
}`
  return renderPage(frame, { title: 'Old invoices', section: SECTION, main })
}

/** After the first request, `settings.js` sends the form again until reminders about all old invoices are resumed. */
function renderForm(frame: Frame, resumedSoFar: number | undefined): Html {
  return html`<section class="card" aria-labelledby="chase"><h2 id="chase">Send reminders about all old invoices</h2>
<p>Each customer is reminded in the next business hours, at most once a day and first with a friendly reminder. Customers who
are paused, archived or cannot be reached receive no reminder. If a customer should not be reminded, pause reminders to this
customer or record a dispute first.</p>
<form method="post" action="${PATH}/chase" class="stack" data-once${resumedSoFar !== undefined && html` data-continue`}>${renderCommonHiddenFields(frame)}
${resumedSoFar !== undefined && html`<input type="hidden" name="chased" value="${resumedSoFar}"><p role="status">${plural(resumedSoFar, 'invoice')} resumed so far.</p>`}
<p class="row"><button class="primary">${resumedSoFar === undefined ? 'Send reminders' : 'Continue'}</button> <a class="button" href="${SECTION}">Cancel</a></p></form></section>`
}

/** Renders the sentence with which other pages link to this page. */
export function renderOldInvoicesHint({ invoices, hasMore }: OldInvoices): Html | undefined {
  if (invoices === 0) return undefined
  const count = hasMore
    ? `More than ${invoices.toLocaleString('en')} invoices`
    : plural(invoices, 'invoice')
  const [were, them] = invoices === 1 ? ['was', 'it'] : ['were', 'them']
  return html`<p class="hint">${count} ${were} past due when created. No reminder is sent about ${them}. <a href="${PATH}">Old invoices</a></p>`
}
