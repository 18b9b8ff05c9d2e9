import type { Problem } from '../../../shared/contract/problem.ts'
import { APPLY_CREDIT, type ApplyCredit } from '../../accounts/apply-credit.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import type { ChasingSettings } from '../../reminders/chasing-settings.ts'
import { type LadderStage, STAGES } from '../../reminders/planning/ladder.ts'
import type { Session } from '../../sessions/sessions.ts'
import type { InitialValues } from '../shell/fields.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderInitialValues,
  renderPage,
} from '../shell/layout.ts'
import { STAGE_WORDS } from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'
import { renderReminderTabs } from './reminder-tabs.ts'

/** The names of the fields with the days of the stages, in forms and in JSON. */
export const LADDER_FIELDS = STAGES.map((stage) => `ladder/${stage}` as const)

/** The words with which messages about faults name the fields. */
export const SCHEDULE_WORDS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(STAGES.map((stage) => [`ladder/${stage}`, STAGE_WORDS[stage]])),
  chase_from: '“Send reminders about invoices due from”',
  reply_to: 'The reply address',
}

/** The values of the form's fields, as texts. */
export interface ScheduleValues {
  readonly days: Partial<Record<(typeof LADDER_FIELDS)[number], string>>
  readonly holidays: string
  readonly chaseFrom: string
  readonly replyTo: string
  readonly applyCredit: string
}

/** The schedule and the other settings of the page: the reply address, and the use of money on account. */
export interface Schedule extends ChasingSettings {
  readonly replyTo: string | null
  readonly applyCredit: ApplyCredit
}

export function valuesOf(schedule: Schedule): ScheduleValues {
  const { ladder, holidays, chaseFrom, replyTo, applyCredit } = schedule
  const days = Object.entries(ladder).map(([stage, value]) => [
    `ladder/${stage}`,
    value === null ? '' : String(value),
  ])
  return {
    days: Object.fromEntries(days),
    holidays: holidays.join('\n'),
    chaseFrom: chaseFrom ?? '',
    replyTo: replyTo ?? '',
    applyCredit,
  }
}

function initialValuesOf({
  days,
  holidays,
  chaseFrom,
  replyTo,
  applyCredit,
}: ScheduleValues): InitialValues {
  const others = { chase_from: chaseFrom, reply_to: replyTo, apply_credit: applyCredit }
  return { ...days, holidays, ...others }
}

interface ScheduleView {
  readonly session: Session
  readonly awaitingApproval: number
  readonly values: ScheduleValues
  /** The stored values when the form is rendered, see `INITIAL_VALUES`. */
  readonly stored: ScheduleValues
  readonly receivesReplies: boolean
}

export function renderSchedule(frame: Frame, view: ScheduleView, problem?: Problem): Html {
  const { session, awaitingApproval, values } = view
  const isAdmin = session.user.role === 'admin'
  const main = html`<h1>Reminders</h1>
${renderReminderTabs('/settings/schedule', awaitingApproval)}
<p class="lead">Reminders are sent on business days from 8:00 to 18:00 in the customer’s time zone, at most one a day to each
customer. Each stage comes at least five days after the previous stage. Firm and Final reminders are sent only after an Admin
has approved them.</p>
${renderFaultSummary(problem)}
<form method="post" action="/settings/schedule" class="stack" data-once novalidate>${renderCommonHiddenFields(frame)}${renderInitialValues(initialValuesOf(view.stored))}
${renderLadder(values, isAdmin, problem)}
<div class="pair">
<section class="card stack"><p class="field"><label for="chase_from">Send reminders about invoices due from</label>
<input id="chase_from" name="chase_from" type="date" value="${values.chaseFrom}"${attribute('disabled', !isAdmin)}${describedBy(problem, 'chase_from', 'chase_from-hint')}></p>
<p class="hint" id="chase_from-hint">No reminders are sent about invoices that fell due before this day. Leave empty to send reminders about every invoice.</p>
${renderFieldFaults(problem, 'chase_from')}
<p class="field"><label for="reply_to">Replies go to</label>
<input id="reply_to" name="reply_to" type="email" value="${values.replyTo}" autocomplete="off"${attribute('disabled', !isAdmin)}${describedBy(problem, 'reply_to', 'reply_to-hint')}></p>
<p class="hint" id="reply_to-hint">${view.receivesReplies ? 'Replies are also kept in the message log. If this field is empty, Admins are notified of replies by mail.' : 'Replies also go to the address from which reminders are sent. They are not kept in the message log, and reminders continue after a reply.'}</p>
${renderFieldFaults(problem, 'reply_to')}
<p class="field"><label for="apply_credit">Money on account</label>
<select id="apply_credit" name="apply_credit"${attribute('disabled', !isAdmin)}${describedBy(problem, 'apply_credit', 'apply_credit-hint')}>${APPLY_CREDIT.map((mode) => html`<option value="${mode}"${attribute('selected', values.applyCredit === mode)}>${CREDIT_WORDS[mode]}</option>`)}</select></p>
<p class="hint" id="apply_credit-hint">Money that was received, but is not allocated to an invoice. With either choice, no reminder demands an amount that this money covers. If you record a payment yourself, you choose its allocation then.</p>
${renderFieldFaults(problem, 'apply_credit')}</section>
<section class="card"><p class="field"><label for="holidays">Holidays</label>
<textarea id="holidays" name="holidays" rows="5" spellcheck="false" autocomplete="off"${attribute('disabled', !isAdmin)}${describedBy(problem, 'holidays', 'holidays-hint')}>
${values.holidays}</textarea></p>
<p class="hint" id="holidays-hint">Days on which no reminders are sent, one per line, e.g. 2026-12-25.</p>
${renderFieldFaults(problem, 'holidays')}</section>
</div>
${isAdmin && html`<p><button class="primary">Save</button></p>`}
</form>`
  return renderPage(frame, { title: 'Schedule', section: '/settings/reminders', main })
}

const CREDIT_WORDS: Readonly<Record<ApplyCredit, string>> = {
  manual: 'Stays on account',
  oldest_first: 'Pays open invoices, the oldest first',
}

interface CustomerScheduleView {
  readonly session: Session
  readonly row: DebtorRow
  /** The stored values. If the form is shown again because of a problem, the entered values replace them. */
  readonly values: ScheduleValues
  /** The stored values when the form is rendered, see `INITIAL_VALUES`. The form shows only the days of the stages. */
  readonly stored: ScheduleValues
  /** Whether the customer has its own schedule rather than the account's. */
  readonly isOwn: boolean
}

export function renderCustomerSchedule(
  frame: Frame,
  { session, row, values, stored, isOwn }: CustomerScheduleView,
  problem?: Problem,
): Html {
  const path = `/settings/customers/${row.id}`
  const isAdmin = session.user.role === 'admin'
  const main = html`<p class="back"><a href="${path}" translate="no">${row.name}</a></p>
<h1>Schedule of this customer</h1>
<p class="lead">${isOwn ? 'This customer has its own schedule.' : `This customer follows the account’s schedule${problem === undefined ? ', which is shown here' : ''}.`}
<a href="/settings/schedule">The account’s schedule</a></p>
${renderFaultSummary(problem)}
<form method="post" action="${path}/schedule" class="stack" data-once novalidate>${renderCommonHiddenFields(frame)}${renderInitialValues({ ...stored.days })}
${renderLadder(values, isAdmin, problem)}
${
  isAdmin &&
  html`<p class="row"><button class="primary" name="own" value="yes">Save as own schedule</button>
${isOwn && html`<button name="own" value="no">Use the account’s schedule</button>`}
<a class="button" href="${path}">Cancel</a></p>`
}</form>`
  return renderPage(frame, {
    title: `Schedule of ${row.name}`,
    section: '/settings/customers',
    main,
  })
}

const STAGE_HINTS: Readonly<Record<LadderStage, string>> = {
  courtesy: 'Sent before the due date, e.g. -3. Leave empty to send none.',
  friendly: 'Assumes that the customer forgot the invoice.',
  reminder: 'Asks when the invoice will be paid.',
  firm: 'Needs approval.',
  final: 'Needs approval. This is the last stage.',
}

function renderLadder(
  { days }: ScheduleValues,
  isAdmin: boolean,
  problem: Problem | undefined,
): Html {
  return html`<fieldset class="card"><legend class="title">Stages, in days past the due date</legend>
<ol class="ladder">${STAGES.map((stage) => {
    const name = `ladder/${stage}` as const
    return html`<li class="${stage}"><p class="field"><label for="${name}">${STAGE_WORDS[stage]}</label>
<input id="${name}" name="${name}" type="number" inputmode="numeric" value="${days[name]}"${attribute('disabled', !isAdmin)}${describedBy(problem, name, `${name}-hint`)}></p>
<p class="hint" id="${name}-hint">${STAGE_HINTS[stage]}</p>${renderFieldFaults(problem, name)}</li>`
  })}</ol></fieldset>`
}
