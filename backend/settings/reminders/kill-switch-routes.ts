import type { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import {
  type KillSwitch,
  killSwitchJson,
  readKillSwitches,
  setKillSwitch,
} from '../../reminders/kill-switch.ts'
import type { Session } from '../../sessions/sessions.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { SessionPage, SettingsDeps } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { timeAgo } from '../shell/words.ts'

const PATH = '/settings/kill-switch'
const ADMINS_ONLY = 'Only an Admin can stop and resume reminders.'

export const killSwitchPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session, now }, deps) {
      const [installationSwitch, accountSwitch] = await readSwitches(session, deps)
      return {
        json: represent(installationSwitch, accountSwitch),
        page: (frame) =>
          renderKillSwitchPage(frame, { session, installationSwitch, accountSwitch, now }),
      }
    },
  },
  switchAction('on'),
  switchAction('off'),
]

function switchAction(position: 'on' | 'off'): SessionPage {
  const on = position === 'on'
  return {
    method: 'POST',
    path: `${PATH}/${position}`,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: { texts: ['reason'] },
    async handle({ session, fields, actionContext, performAction }, deps) {
      const reason = fields.text('reason')
      // The reason for resuming is optional. An empty reason is omitted, because `setKillSwitch` would reject it.
      const change = on ? { on, reason } : { on, ...(reason !== '' && { reason }) }
      await performAction(on ? 'reminders_stopped' : 'reminders_resumed', (tx) =>
        setKillSwitch(tx, session.account.id, change, actionContext),
      )
      const [installationSwitch, accountSwitch] = await readSwitches(session, deps)
      return { json: represent(installationSwitch, accountSwitch), location: PATH }
    },
    async rerender({ session, fields, now }, problem, deps) {
      const [installationSwitch, accountSwitch] = await readSwitches(session, deps)
      const rejected = { reason: fields.text('reason'), problem }
      return (frame) =>
        renderKillSwitchPage(frame, { session, installationSwitch, accountSwitch, now }, rejected)
    },
  }
}

function readSwitches({ account }: Session, { database }: Pick<SettingsDeps, 'database'>) {
  return readKillSwitches(database.read, account.id)
}

function represent(installationSwitch: KillSwitch, accountSwitch: KillSwitch) {
  return { ...killSwitchJson(accountSwitch), installation: killSwitchJson(installationSwitch) }
}

interface SwitchView {
  readonly session: Session
  /** The switch with which the operator stops the reminders of all accounts. */
  readonly installationSwitch: KillSwitch
  readonly accountSwitch: KillSwitch
  readonly now: Date
}

interface RejectedForm {
  readonly reason: string
  readonly problem: Problem
}

function renderKillSwitchPage(
  frame: Frame,
  { session, installationSwitch, accountSwitch, now }: SwitchView,
  rejected?: RejectedForm,
): Html {
  const times = { now, timezone: session.account.timezone }
  const isAdmin = session.user.role === 'admin'
  const lastChange =
    accountSwitch.changedAt !== null &&
    html`${timeAgo(accountSwitch.changedAt, times)} by <span translate="no">${accountSwitch.changedBy}</span>`
  const main = html`<p class="back"><a href="/settings/reminders">Reminders</a></p>
<h1>Kill switch</h1>
<p class="lead">While the kill switch is on, no reminder of your account is sent, not even one that is due now. Waiting
reminders are discarded. When you resume, new ones are planned for the invoices about which a reminder is then due.</p>
${
  installationSwitch.isOn &&
  html`<section class="card"><h2>The operator of this service has stopped all reminders</h2>
<p>${installationSwitch.reason}</p><p class="hint">${installationSwitch.changedAt !== null && timeAgo(installationSwitch.changedAt, times)}</p></section>`
}
<section class="card stack" aria-labelledby="state">
<h2 id="state">${accountSwitch.isOn ? 'Reminders of your account are stopped' : 'Reminders of your account are not stopped'}</h2>
${accountSwitch.isOn ? html`<p>${accountSwitch.reason}</p><p class="hint">Stopped ${lastChange}.</p>` : lastChange && html`<p class="hint">Resumed ${lastChange}.</p>`}
${isAdmin && (accountSwitch.isOn ? renderResumeForm(frame, rejected) : renderStopForm(frame, rejected))}
${!isAdmin && html`<p class="hint">${ADMINS_ONLY}</p>`}
</section>`
  return renderPage(frame, { title: 'Kill switch', section: '/settings/reminders', main })
}

function renderStopForm(frame: Frame, rejected?: RejectedForm): Html {
  return html`${renderFaultSummary(rejected?.problem)}
<form method="post" action="${PATH}/on" class="stack" data-once novalidate>${renderCommonHiddenFields(frame)}
<p class="field"><label for="reason">Reason</label>
<input id="reason" name="reason" value="${rejected?.reason}" maxlength="500" autocomplete="off" required${describedBy(rejected?.problem, 'reason', 'reason-hint')}></p>
<p class="hint" id="reason-hint">Every user of your account sees the reason on every page.</p>
${renderFieldFaults(rejected?.problem, 'reason')}
<p><button class="danger solid">Stop all reminders</button></p></form>`
}

function renderResumeForm(frame: Frame, rejected?: RejectedForm): Html {
  return html`${renderFaultSummary(rejected?.problem)}
<form method="post" action="${PATH}/off" class="stack" data-once>${renderCommonHiddenFields(frame)}
<p class="hint">New reminders are planned for the invoices about which a reminder is due. They are sent in each customer’s business hours, the first ones within a minute if those hours have begun, and at most one a day to each customer. Firm and final reminders wait for approval first.</p>
<p><button class="primary">Resume reminders</button></p></form>`
}

/** If scripts run, the link “Stop all reminders” opens this dialog instead of the page of the kill switch. */
export function renderStopDialog(frame: Frame): Html {
  return html`<dialog id="stop-dialog" role="alertdialog" aria-labelledby="stop-title" aria-describedby="stop-text">
<h2 id="stop-title">Stop all reminders?</h2>
<p id="stop-text">No reminder is sent from now on, not even one that is due now. Waiting reminders are discarded; new ones are planned when you resume.</p>
<form method="post" action="${PATH}/on" class="stack" data-once>${renderCommonHiddenFields(frame)}
<p class="field"><label for="stop-reason">Reason</label>
<input id="stop-reason" name="reason" maxlength="500" autocomplete="off" required autofocus></p>
<p class="row"><button type="button" data-close>Cancel</button>
<button class="danger solid">Stop all reminders</button></p></form></dialog>`
}
