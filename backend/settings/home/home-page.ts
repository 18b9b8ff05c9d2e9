import { isReadOnly } from '../../accounts/accounts.ts'
import { addDays } from '../../calendar/calendar.ts'
import { calendarDateFormat } from '../../calendar/date-formats.ts'
import { AGES, type DueByAge } from '../../debtors/due-totals.ts'
import { type Html, html } from '../../html/html.ts'
import { renderArchivedDue } from '../customers/customer-parts.ts'
import { messageName } from '../reminders/message-table.ts'
import { renderOldInvoicesHint } from '../reminders/old-invoices.ts'
import { renderPage } from '../shell/layout.ts'
import { METHOD_WORDS, renderMessageStatus, renderMoney } from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, plural, type TimeContext, timeAgo } from '../shell/words.ts'
import { DETAILED_CURRENCIES_MAX, type Overview, UPCOMING_INVOICES_MAX } from './overview.ts'

const PATH = '/settings'

export function renderHome(frame: Frame, overview: Overview): Html {
  const { account } = overview.session
  const isEmpty = !overview.steps.hasCustomer
  const main = html`<div class="heading"><h1>Home</h1>
<p class="total">${exactTime(overview.now.toISOString(), account.timezone)} <span translate="no">(${account.timezone})</span></p></div>
${renderAlerts(frame, overview)}
${isEmpty && renderSteps(overview)}
${!isEmpty && renderDue(overview)}
${!isEmpty && renderWeek(overview)}
${!isEmpty && renderLatest(overview)}`
  return renderPage(frame, { title: 'Home', section: PATH, main })
}

function renderSteps({ steps, session }: Overview): Html {
  const isAdmin = session.user.role === 'admin'
  const step = (isDone: boolean, title: string, hint: string, links: Html) =>
    html`<li><h2>${title}${isDone && html` <span class="badge active">Done</span>`}</h2>
<p class="hint">${hint}</p><p class="row">${links}</p></li>`
  return html`<section aria-labelledby="steps-title"><h2 id="steps-title" class="unseen">Get started</h2>
<ol class="steps">
${step(
  steps.hasKey,
  'Issue an API key',
  'Your accounting system uses the key to create customers and invoices and to record payments.',
  html`<a class="button${isAdmin && !steps.hasKey && ' primary'}" href="${isAdmin ? '/settings/api-keys/new' : '/settings/api-keys'}">${isAdmin ? 'Issue key' : 'API keys'}</a> <a class="button" href="/docs/first-call">Make the first call</a>`,
)}
${step(
  // Home shows the steps only until there is a customer, so this step is never shown as done.
  false,
  'Create or import customers',
  'Use the API or a CSV file. No reminders are sent about imported invoices that are already past due, unless you choose to send them.',
  isAdmin
    ? html`<a class="button${steps.hasKey && ' primary'}" href="/settings/import">Import a CSV file</a> <a class="button" href="/settings/customers/new">Add a customer</a>`
    : html`<a class="button" href="/settings/customers">Customers</a>`,
)}
${step(
  // The service does not know whether a person has reviewed the schedule, so this step is never shown as done.
  false,
  'Review the reminder schedule',
  'The schedule decides when customers are reminded. Firm and Final reminders are sent only after someone approves them.',
  html`<a class="button" href="/settings/schedule">Schedule</a>`,
)}
</ol></section>`
}

interface Alert {
  readonly kind: 'bad' | 'todo'
  readonly text: Html
  readonly path: string
  readonly link: string
}

function renderAlerts({ killSwitch }: Frame, overview: Overview): Html | undefined {
  const alerts = alertsOf(overview)
  const { status } = overview.session.account
  if (killSwitch !== undefined) {
    alerts.unshift({
      ...{ kind: 'bad', path: '/settings/kill-switch', link: 'Kill switch' },
      text: html`The kill switch is on: no reminder is sent.`,
    })
  }
  if (isReadOnly(status)) {
    alerts.unshift({
      ...{ kind: 'bad', path: '/docs/errors#account_read_only', link: 'What this means' },
      text: html`This account is read-only (${status.replaceAll('_', ' ')}): API calls that write are rejected.`,
    })
  }
  if (alerts.length === 0) return undefined
  return html`<section aria-labelledby="alerts-title"><h2 id="alerts-title">Needs attention</h2>
<ul class="alerts">${alerts.map(
    ({ kind, text, path, link }) =>
      html`<li class="${kind}"><span>${text}</span> <a class="button small" href="${path}">${link}</a></li>`,
  )}</ul></section>`
}

function alertsOf({
  approvalsWaiting,
  currenciesWithoutPaymentDetails,
  brokenEndpoints,
  unreachable,
  keysNearLimit,
  hasMoreKeysNearLimit,
  session,
  now,
}: Overview): Alert[] {
  const times = { now, timezone: session.account.timezone }
  const alerts: Alert[] = []
  if (approvalsWaiting > 0) {
    alerts.push({
      ...{ kind: 'todo', path: '/settings/approvals', link: 'Review' },
      text: html`${plural(approvalsWaiting, 'reminder waits', 'reminders wait')} for approval.`,
    })
  }
  if (currenciesWithoutPaymentDetails.length > 0) {
    const currencies = new Intl.ListFormat('en').format(currenciesWithoutPaymentDetails)
    alerts.push({
      ...{ kind: 'bad', path: '/settings/payment-details', link: 'How to pay' },
      text: html`Some reminders in ${currencies} do not say how to pay.`,
    })
  }
  for (const { id, url, status, status_since, failing_since } of brokenEndpoints) {
    alerts.push({
      ...{ kind: 'bad', path: `/settings/webhook-endpoints/${id}`, link: 'Endpoint' },
      text:
        status === 'disabled'
          ? html`Webhook endpoint <span translate="no">${url}</span> was disabled ${timeAgo(status_since, times)}.`
          : html`Webhook endpoint <span translate="no">${url}</span> started failing ${timeAgo(failing_since ?? status_since, times)}.`,
    })
  }
  if (unreachable.customers > 0) {
    const count = unreachable.hasMore
      ? `More than ${unreachable.customers.toLocaleString('en')} customers`
      : plural(unreachable.customers, 'customer')
    const owe = unreachable.customers === 1 ? 'owes' : 'owe'
    alerts.push({
      ...{ kind: 'bad', path: '/settings/customers?view=unreachable', link: 'Customers' },
      text: html`${count} ${owe} money and cannot be reached by e-mail.`,
    })
  }
  for (const { id, name, used, limit, endsAt } of keysNearLimit) {
    const state = used >= limit ? 'is at its limit' : 'is near its limit'
    alerts.push({
      ...{ kind: used >= limit ? 'bad' : 'todo', path: `/settings/api-keys/${id}`, link: 'Key' },
      text: html`API key <strong translate="no">${name}</strong> ${state}: ${used.toLocaleString('en')} of ${limit.toLocaleString('en')} calls. The count restarts at ${exactTime(endsAt, times.timezone)}.`,
    })
  }
  if (hasMoreKeysNearLimit) {
    alerts.push({
      ...{ kind: 'todo', path: '/settings/api-keys', link: 'Keys' },
      text: html`More API keys are at or near their limits.`,
    })
  }
  return alerts
}

function renderDue({ due, archivedDue, largestDebtors, today }: Overview): Html {
  if (due.length === 0) {
    return html`<section class="card empty"><p><strong>Nothing is owed.</strong></p>
<p class="hint">Open invoices appear here with their age.</p></section>`
  }
  return html`${due.slice(0, DETAILED_CURRENCIES_MAX).map((total) => {
    const { currency } = total
    const id = `due-${currency.toLowerCase()}`
    const archived = archivedDue.get(currency)
    return html`<section aria-labelledby="${id}"><h2 id="${id}">Owed in ${currency}</h2>
<div class="pair due">
<div class="card"><dl class="figures plain-figures">
<div><dt>Owed</dt><dd><a href="/settings/invoices?currency=${currency}">${renderMoney(total.outstanding.amount, currency)}</a></dd><dd class="hint">${plural(total.outstanding.invoices, 'invoice')}</dd></div>
<div><dt>Overdue</dt><dd${total.overdue.amount > 0 && html` class="late"`}><a href="/settings/invoices?view=overdue&amp;currency=${currency}">${renderMoney(total.overdue.amount, currency)}</a></dd><dd class="hint">${plural(total.overdue.invoices, 'invoice')}</dd></div></dl>
${archived && html`<p class="hint">Includes ${renderArchivedDue([archived])}.</p>`}
${renderAges(total, today)}</div>
<div class="card"><h3>Customers who owe the most</h3>
<table class="plain stacked-if-narrow"><caption class="unseen">Customers who owe the most in ${currency}</caption>
<thead><tr><th scope="col">Customer</th><th scope="col" class="amount">Overdue</th><th scope="col" class="amount">Owes</th></tr></thead>
<tbody>${(largestDebtors.get(currency) ?? []).map(
      (
        debtor,
      ) => html`<tr><th scope="row"><a href="/settings/customers/${debtor.id}" translate="no">${debtor.name}</a></th>
<td data-label="Overdue" class="amount${debtor.overdue > 0 && ' late'}">${debtor.overdue > 0 ? renderMoney(debtor.overdue, currency) : '–'}</td><td data-label="Owes" class="amount">${renderMoney(debtor.outstanding, currency)}</td></tr>`,
    )}</tbody></table>
<p><a href="/settings/customers?view=owing&amp;sort=-owes&amp;currency=${currency}">All<span class="unseen"> customers who owe ${currency}</span></a></p></div>
</div></section>`
  })}
${due.length > DETAILED_CURRENCIES_MAX && renderOtherCurrencies(due.slice(DETAILED_CURRENCIES_MAX))}`
}

function renderOtherCurrencies(due: readonly DueByAge[]): Html {
  return html`<section class="card" aria-labelledby="others-title"><h2 id="others-title">Other currencies</h2>
<table class="plain stacked-if-narrow"><caption class="unseen">Owed in other currencies</caption>
<thead><tr><th scope="col">Currency</th><th scope="col">Invoices</th><th scope="col" class="amount">Overdue</th><th scope="col" class="amount">Owed</th></tr></thead>
<tbody>${due.map(
    ({ currency, outstanding, overdue }) =>
      html`<tr><th scope="row"><a href="/settings/invoices?currency=${currency}">${currency}</a></th><td data-label="Invoices">${outstanding.invoices.toLocaleString('en')}</td><td data-label="Overdue" class="amount">${renderMoney(overdue.amount, currency)}</td><td data-label="Owed" class="amount">${renderMoney(outstanding.amount, currency)}</td></tr>`,
  )}</tbody></table></section>`
}

const AGE_WORDS: Readonly<Record<(typeof AGES)[number]['name'], string>> = {
  not_due: 'Not due',
  days_1_30: '1–30 days',
  days_31_60: '31–60 days',
  days_61_90: '61–90 days',
  days_over_90: 'Over 90 days',
}

function renderAges({ currency, ages }: DueByAge, today: string): Html {
  const largest = Math.max(...ages.map(({ amount }) => amount), 1)
  return html`<table class="ages"><caption class="unseen">Owed in ${currency} by days past due</caption>
<thead class="unseen"><tr><th scope="col">Past due</th><th scope="col">Share</th><th scope="col">Invoices</th><th scope="col">Amount</th></tr></thead>
<tbody>${AGES.map(({ name, from, to }, index) => {
    const { amount, invoices } = ages[index] ?? { amount: 0, invoices: 0 }
    // An age is a range of days past due, so its earliest due date is `to` days ago, and its latest is `from` days ago.
    // `due_before` is exclusive, so it is the day after the latest.
    const query = new URLSearchParams({
      currency,
      ...(to !== null && { due_since: addDays(today, -to) }),
      ...(from !== null && { due_before: addDays(today, 1 - from) }),
    })
    const label =
      invoices === 0
        ? AGE_WORDS[name]
        : html`<a href="/settings/invoices?${query.toString()}">${AGE_WORDS[name]}</a>`
    return html`<tr><th scope="row">${label}</th>
<td class="bar"><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect class="age-${index}" width="${((amount / largest) * 100).toFixed(2)}" height="10"/></svg></td>
<td class="amount hint">${invoices === 0 ? '–' : plural(invoices, 'invoice')}</td><td class="amount">${renderMoney(amount, currency)}</td></tr>`
  })}</tbody></table>`
}

const weekdayOf = calendarDateFormat('en-GB', { weekday: 'short' })
const dayAndMonth = calendarDateFormat('en-GB', { day: 'numeric', month: 'short' })

/** Only the calendar computes when the reminders of paused customers and invoices continue. */
const NOT_COUNTED =
  'Customers and invoices that are paused now are not counted, even if the pause ends on one of these days. The calendar shows their reminders.'

function renderWeek({ reminders, oldInvoices, today }: Overview): Html {
  const largest = Math.max(...reminders.days.map(({ debtors }) => debtors), 1)
  const total = reminders.days.reduce((sum, { debtors }) => sum + debtors, 0)
  return html`<section aria-labelledby="week-title"><div class="heading"><h2 id="week-title">Reminders in the next seven days</h2>
<a href="/settings/reminders">Calendar</a></div>
<div class="card">${
    total === 0
      ? html`<p class="hint">No reminder is scheduled for the next seven days. ${NOT_COUNTED}</p>`
      : html`<table class="week"><caption class="unseen">Customers to be reminded, by day</caption>
<thead><tr>${reminders.days.map(({ date }) => html`<th scope="col"${date === today && html` aria-current="date"`}><time datetime="${date}">${weekdayOf(date)}<span>${dayAndMonth(date)}</span></time></th>`)}</tr></thead>
<tbody><tr>${reminders.days.map(
          ({ debtors }) =>
            html`<td><svg viewBox="0 0 10 40" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect x="0" y="${(40 - (debtors / largest) * 40).toFixed(2)}" width="10" height="${((debtors / largest) * 40).toFixed(2)}"/></svg>${debtors === 0 ? html`<span class="hint">–</span>` : html`<strong>${debtors.toLocaleString('en')}</strong>`}</td>`,
        )}</tr></tbody></table>
<p class="hint">Counts the customers who can be contacted and have a reminder scheduled for that day. ${NOT_COUNTED}${reminders.isTruncated && ` Only the ${UPCOMING_INVOICES_MAX} invoices with the earliest reminders are taken into account, so the counts of later days may be too low. The calendar shows all reminders.`}</p>`
  }${renderOldInvoicesHint(oldInvoices)}</div></section>`
}

function renderLatest({ payments, messages, names, session, now }: Overview): Html {
  const times: TimeContext = { now, timezone: session.account.timezone }
  const customer = (id: string) =>
    html`<a href="/settings/customers/${id}" translate="no">${names.get(id)}</a>`
  return html`<div class="pair latest">
<section aria-labelledby="payments-title"><div class="heading"><h2 id="payments-title">Latest payments</h2><a href="/settings/payments">All<span class="unseen"> payments</span></a></div>
<ul class="card feed">${payments.length === 0 && html`<li class="hint">None yet.</li>`}${payments.map(
    (
      row,
    ) => html`<li><a href="/settings/payments/${row.id}">${renderMoney(row.amount, row.currency)}</a>
<span>${customer(row.debtor_id)}<span class="hint">${row.status === 'reversed' ? 'Reversed' : METHOD_WORDS[row.method]} · ${timeAgo(row.created_at, times)}</span></span></li>`,
  )}</ul></section>
<section aria-labelledby="messages-title"><div class="heading"><h2 id="messages-title">Latest messages</h2><a href="/settings/messages">All<span class="unseen"> messages</span></a></div>
<ul class="card feed">${messages.length === 0 && html`<li class="hint">None yet.</li>`}${messages.map(
    (row) => html`<li><a href="/settings/messages/${row.id}">${messageName(row)}</a>
<span>${customer(row.debtor_id)}<span class="hint">${renderMessageStatus(row)} · ${timeAgo(row.sent_at ?? row.updated_at, times)}</span></span></li>`,
  )}</ul></section></div>`
}
