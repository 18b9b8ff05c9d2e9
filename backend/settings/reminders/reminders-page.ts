import { addDays, daysBetween, todayIn } from '../../calendar/calendar.ts'
import { calendarDateFormat, dateFormats } from '../../calendar/date-formats.ts'
import { type Html, html } from '../../html/html.ts'
import type { OldInvoices } from '../../invoices/old-invoices.ts'
import type { UpcomingDays } from '../../invoices/upcoming-reminders.ts'
import { type LadderStage, STAGES } from '../../reminders/planning/ladder.ts'
import type { PreviewedMessage } from '../../reminders/preview.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderPage } from '../shell/layout.ts'
import { reasonWords, renderMoney, STAGE_WORDS } from '../shell/ledger-words.ts'
import { listPath } from '../shell/list-query.ts'
import type { Frame } from '../shell/response.ts'
import { plural, timeAgo } from '../shell/words.ts'
import { renderStopDialog } from './kill-switch-routes.ts'
import { renderOldInvoicesHint } from './old-invoices.ts'
import { renderMissingPaymentDetails } from './payment-details-page.ts'
import type { Preview } from './previews.ts'
import { renderReminderTabs } from './reminder-tabs.ts'

const PATH = '/settings/reminders'
/** The value of `daysAhead` if the address of the page has no parameter `days`. */
export const DAYS_DEFAULT = 14

/** The maximum number of reminders shown for each day, and for each reason why reminders are blocked. */
const SHOWN_MAX = 10
/** The maximum number of reminders shown if the page lists those of a single day. */
const SHOWN_ALONE_MAX = 500

export interface RemindersView {
  readonly session: Session
  readonly now: Date
  /** The preview covers today and this many days after it. */
  readonly daysAhead: number
  /** The day whose reminders are listed below the calendar; undefined for all days. */
  readonly day: string | undefined
  /** Undefined while the first preview is being computed. */
  readonly preview: Preview | undefined
  /** Whether a preview is still being computed. `preview` is then the previous one, or undefined. */
  readonly isComputing: boolean
  /** The number of customers to be reminded on each day; undefined if the page shows a preview. */
  readonly scheduled: UpcomingDays | undefined
  readonly holidays: readonly string[]
  /** No reminders are sent about invoices that fell due before this date. */
  readonly chaseFrom: string | null
  readonly awaitingApproval: number
  /** Currencies in which reminders do not say how to pay. */
  readonly currenciesWithoutPaymentDetails: readonly string[]
  readonly oldInvoices: OldInvoices
}

interface Day {
  readonly date: string
  readonly messages: readonly PreviewedMessage[]
  /** Whether the preview does not cover this day. */
  readonly isOutside: boolean
  readonly isToday: boolean
  readonly isDayOff: boolean
  readonly isHoliday: boolean
}

export function renderReminders(frame: Frame, view: RemindersView): Html {
  const { session, preview, awaitingApproval, currenciesWithoutPaymentDetails } = view
  const isAdmin = session.user.role === 'admin'
  const main = html`<div class="heading"><h1>Reminders</h1>
${isAdmin && frame.killSwitch?.scope !== 'account' && html`<a class="button danger" href="/settings/kill-switch" data-dialog="stop-dialog">Stop all reminders</a>`}</div>
${renderReminderTabs(PATH, awaitingApproval)}
${renderMissingPaymentDetails(currenciesWithoutPaymentDetails, isAdmin)}
${preview === undefined ? renderScheduled(view) : renderPreview(view, preview)}
${isAdmin && renderStopDialog(frame)}`
  return renderPage(frame, { title: 'Reminders', section: PATH, main })
}

/** While the first preview is being computed, `data-reload` makes the browser load the page again after a second. */
function renderScheduled({ scheduled, day, daysAhead, oldInvoices }: RemindersView): Html {
  const busyDays = scheduled?.days.filter(({ debtors }) => debtors > 0) ?? []
  return html`<p class="lead" data-reload>The reminders are still being computed, because many of your customers owe something. This takes a few seconds. <a href="${pathOf(daysAhead, day)}">Reload</a></p>
${renderOldInvoicesHint(oldInvoices)}
<section aria-labelledby="scheduled"><h2 id="scheduled">Scheduled so far</h2>
${
  busyDays.length === 0
    ? html`<p class="card hint">No reminder is scheduled on these days.</p>`
    : html`<table class="records ledger dense"><caption class="unseen">Customers to be reminded, by day</caption>
<thead><tr><th scope="col">Day</th><th scope="col" class="amount">Customers</th></tr></thead>
<tbody>${busyDays.map(
        ({ date, debtors }) =>
          html`<tr><th scope="row" data-label="Day">${longDay(date)}</th><td data-label="Customers" class="amount">${debtors.toLocaleString('en')}</td></tr>`,
      )}</tbody></table>`
}
<p class="hint">Counts the customers who can be contacted and have a reminder scheduled for that day.${scheduled?.isTruncated && ' Only the invoices with the earliest reminders are taken into account, so the counts of the last days may be too low.'}</p></section>`
}

function renderPreview(view: RemindersView, { messages, at }: Preview): Html {
  const { session, day, daysAhead, now } = view
  const { isDemo } = session.account
  // For sample data the page shows what would be sent if the data were real.
  const willBeSent = ({ refusal }: PreviewedMessage) =>
    refusal === null || (isDemo && refusal.reason === 'demo')
  const planned = messages.filter(willBeSent)
  const blocked = messages.filter((message) => !willBeSent(message))
  const days = daysOf(view, planned)
  const allDays = pathOf(daysAhead)
  const firstDay = days.find((entry) => entry.messages.length > 0)?.date
  return html`${
    isDemo &&
    html`<p class="lead">Sample data: the page shows what would be sent if the customers were real. No mail is sent from
this account; deliveries in its log are made up.</p>`
  }
<dl class="figures">
<div><dt>${isDemo ? 'Would be sent' : 'To be sent'}</dt><dd>${renderCount(planned.length, `${allDays}#day-${firstDay}`)}</dd></div>
<div><dt>Need approval</dt><dd>${planned.filter(({ requiresApproval }) => requiresApproval).length.toLocaleString('en')}</dd></div>
<div><dt>Blocked</dt><dd>${renderCount(blocked.length, `${allDays}#blocked`)}</dd></div></dl>
${renderOldInvoicesHint(view.oldInvoices)}
${renderCalendar(days, view)}
${planned.length === 0 ? renderNothing(blocked.length > 0) : renderAgenda(days, view)}
${(day === undefined || planned.length === 0) && blocked.length > 0 && renderBlocked(blocked)}
<p class="hint">Computed ${timeAgo(at.toISOString(), { now, timezone: session.account.timezone })}. ${view.isComputing && html`A newer preview is being computed: <a href="${pathOf(daysAhead, day)}">reload</a> the page in a few seconds. `}A customer who pays, disputes the invoice or is paused before a reminder is due does not receive it. The preview assumes that every reminder is approved immediately.
${view.chaseFrom !== null && html`No reminders are sent about invoices that fell due before ${view.chaseFrom}. <a href="/settings/schedule">Schedule</a>`}</p>`
}

/** Returns the path of the page that shows only `day`, or of the page that shows all days. */
function pathOf(daysAhead: number, day?: string): string {
  return listPath(PATH, { days: daysAhead === DAYS_DEFAULT ? undefined : String(daysAhead), day })
}

function dayAddress(daysAhead: number, date: string): string {
  return `${pathOf(daysAhead, date)}#day-${date}`
}

/**
 * Renders the number of reminders as a link to their list on the page of all days, because the page of a single day may
 * not show this list.
 */
function renderCount(count: number, listAddress: string): Html {
  const words = count.toLocaleString('en')
  return count === 0 ? html`${words}` : html`<a href="${listAddress}">${words}</a>`
}

function renderNothing(isBlocked: boolean): Html {
  return html`<div class="card empty"><p><strong>No reminder is sent on these days.</strong></p>
<p class="hint">${isBlocked ? 'The reminders that would be due are blocked, for the reasons below.' : 'No invoice reaches its next stage on these days.'}</p></div>`
}

/** Returns all days from the Monday of the first week to the Sunday of the last. */
function daysOf(
  { session, now, daysAhead, holidays }: RemindersView,
  planned: readonly PreviewedMessage[],
): Day[] {
  const { timezone } = session.account
  const byDay = Map.groupBy(planned, ({ at }) => todayIn(timezone, new Date(at)))
  const today = todayIn(timezone, now)
  const first = addDays(today, -weekdayOf(today))
  const last = addDays(today, daysAhead)
  const count = Math.ceil((daysBetween(first, last) + 1) / 7) * 7
  return Array.from({ length: count }, (_, index) => {
    const date = addDays(first, index)
    const isHoliday = holidays.includes(date)
    return {
      date,
      messages: byDay.get(date) ?? [],
      isOutside: date < today || date > last,
      isToday: date === today,
      isDayOff: isHoliday || weekdayOf(date) > 4,
      isHoliday,
    }
  })
}

/** Returns 0 for Monday, 6 for Sunday. */
function weekdayOf(date: string): number {
  return (new Date(`${date}T00:00:00Z`).getUTCDay() + 6) % 7
}

function renderCalendar(days: readonly Day[], view: RemindersView): Html {
  const weekdays = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
  return html`<div class="calendar"><div class="weekdays" aria-hidden="true">${weekdays.map((name) => html`<span>${name}</span>`)}</div>
<ol aria-label="Reminders by day">${days.map((day) => renderDay(day, view))}</ol></div>`
}

function renderDay(
  { date, messages, isOutside, isToday, isDayOff, isHoliday }: Day,
  { daysAhead, day: chosen }: RemindersView,
): Html {
  const classes = `${isOutside ? ' outside' : ''}${isToday ? ' today' : ''}${isDayOff ? ' day-off' : ''}${date === chosen ? ' chosen' : ''}`
  const name = html`<time datetime="${date}"${isToday && html` aria-current="date"`}><span class="unseen">${isToday && 'Today, '}${longDay(date)}</span><span aria-hidden="true">${Number(date.slice(8))}${date.endsWith('-01') && html` <span class="month">${monthName(date)}</span>`}</span></time>`
  if (messages.length === 0) {
    return html`<li class="day${classes}">${name}${isHoliday && html`<span class="hint">Holiday</span>`}</li>`
  }
  const stages = Map.groupBy(messages, stageOf)
  return html`<li class="day has-reminders${classes}"><a href="${dayAddress(daysAhead, date)}">${name}
<span class="unseen">: ${plural(messages.length, 'reminder')}</span>
<span class="total" aria-hidden="true">${messages.length}</span>
<span class="stages" aria-hidden="true">${STAGES.flatMap((stage) => {
    const count = stages.get(stage)?.length ?? 0
    return count === 0
      ? []
      : [html`<span class="stage ${stage}">${count} ${STAGE_WORDS[stage]}</span>`]
  })}</span></a></li>`
}

/** The stage of a courtesy reminder is stored as null. */
function stageOf({ stage }: PreviewedMessage): LadderStage {
  return stage ?? 'courtesy'
}

function renderAgenda(days: readonly Day[], { day, daysAhead, session, now }: RemindersView): Html {
  const { timezone } = session.account
  const shown = days.filter(
    ({ date, messages }) => messages.length > 0 && (day === undefined || date === day),
  )
  const shownMax = day === undefined ? SHOWN_MAX : SHOWN_ALONE_MAX
  return html`${day !== undefined && html`<p class="back"><a href="${pathOf(daysAhead)}">All days</a></p>`}
${shown.map(
  ({ date, messages }) => html`<section class="agenda" aria-labelledby="day-${date}">
<h2 id="day-${date}">${date === todayIn(timezone, now) ? 'Today' : longDay(date)} <span class="total">${plural(messages.length, 'reminder')}</span></h2>
<ul class="messages">${messages.slice(0, shownMax).map((message) => renderMessage(message, timezone, null))}</ul>
${messages.length > shownMax && (day === undefined ? renderDayLink(dayAddress(daysAhead, date), messages.length) : html`<p class="hint">Only the first ${shownMax} reminders of this day are shown.</p>`)}
</section>`,
)}`
}

function renderDayLink(address: string, count: number): Html {
  const shown = count > SHOWN_ALONE_MAX ? `The first ${SHOWN_ALONE_MAX} of` : 'All'
  return html`<p><a href="${address}">${shown} ${count} reminders of this day</a></p>`
}

const timesOfDay = dateFormats('en-GB', { timeStyle: 'short' })

/**
 * `refusal` is the reason to show, or null for a message that is listed as planned. Messages of a demo account are
 * listed as planned although `message.refusal` is set.
 */
function renderMessage(
  message: PreviewedMessage,
  timezone: string,
  refusal: PreviewedMessage['refusal'],
): Html {
  const { debtorId, debtorName, at, invoices, requiresApproval } = message
  const isUndecided = message.storedMessage?.status === 'awaiting_approval'
  const time = timesOfDay(timezone)
  return html`<li class="card"><div><span class="stage ${stageOf(message)}">${STAGE_WORDS[stageOf(message)]}</span>
<strong><a href="/settings/customers/${debtorId}" translate="no">${debtorName}</a></strong>
<span class="detail">${renderInvoices(invoices)}${refusal === null && ` · ${isUndecided ? 'after approval' : `from ${time.format(new Date(at))}`}`}</span>
${refusal === null ? requiresApproval && renderApprovalBadge(message) : html`<span class="detail why">${reasonWords(refusal.reason)}: ${refusal.detail}</span>`}</div>
<div class="figure">${sumsOf(invoices).map(([currency, amount]) => html`<span class="sum">${renderMoney(amount, currency)}</span>`)}</div></li>`
}

function renderApprovalBadge({ storedMessage }: PreviewedMessage): Html {
  if (storedMessage?.status === 'approved') return html`<span class="badge active">Approved</span>`
  return storedMessage?.status === 'awaiting_approval'
    ? html`<a class="badge warning" href="/settings/approvals/${storedMessage.id}">Awaits approval</a>`
    : html`<span class="badge warning">Will need approval</span>`
}

function renderInvoices(invoices: PreviewedMessage['invoices']): Html {
  const [first, second] = invoices
  if (first === undefined) return html``
  return html`<span translate="no">${first.number}${second && `, ${second.number}`}</span>${invoices.length > 2 && ` and ${invoices.length - 2} more`}`
}

/** Returns the amounts that the reminder demands, without the part `onAccount`, which money on account covers. */
function sumsOf(invoices: PreviewedMessage['invoices']): [currency: string, amount: number][] {
  const sums = new Map<string, number>()
  for (const { currency, amountDue, onAccount = 0 } of invoices) {
    sums.set(currency, (sums.get(currency) ?? 0) + amountDue - onAccount)
  }
  return [...sums]
}

/** Groups blocked reminders by reason, most frequent first. */
function renderBlocked(blocked: readonly PreviewedMessage[]): Html {
  // The time of a blocked reminder is not shown, so any time zone will do.
  const timezone = 'UTC'
  const byReason = [...Map.groupBy(blocked, ({ refusal }) => refusal?.reason ?? '')].sort(
    ([, a], [, b]) => b.length - a.length,
  )
  return html`<section aria-labelledby="blocked"><h2 id="blocked">Blocked</h2>
${byReason.map(
  ([
    reason,
    messages,
  ]) => html`<details class="blocked"><summary>${plural(messages.length, 'reminder')}: ${reasonWords(reason)}</summary>
<ul class="messages">${messages.slice(0, SHOWN_MAX).map((message) => renderMessage(message, timezone, message.refusal))}</ul>
${messages.length > SHOWN_MAX && html`<p class="hint">And ${messages.length - SHOWN_MAX} more.</p>`}</details>`,
)}</section>`
}

const longDay = calendarDateFormat('en-GB', { weekday: 'long', day: 'numeric', month: 'long' })
const monthName = calendarDateFormat('en-GB', { month: 'short' })
