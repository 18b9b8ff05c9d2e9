/** The routes and the page of an account's kill switch, which stops all reminders of the account. */
import type { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import {
  type KillSwitch,
  readKillSwitches,
  renderKillSwitch,
  setKillSwitch,
} from '../../reminders/kill-switch.ts'
import type { Session } from '../../sessions/sessions.ts'
import { csrfField, describedBy, renderFault, renderFaults, renderPage } from '../shell/layout.ts'
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
      const [installation, own] = await readSwitches(session, deps)
      return {
        json: represent(installation, own),
        page: (frame) => renderSwitch(frame, { session, installation, own, now }),
      }
    },
  },
  switchPage('on'),
  switchPage('off'),
]

function switchPage(position: 'on' | 'off'): SessionPage {
  const on = position === 'on'
  return {
    method: 'POST',
    path: `${PATH}/${position}`,
    adminsOnly: ADMINS_ONLY,
    expected: { texts: ['reason'] },
    async handle({ session, fields, actionContext, performAction }, deps) {
      const reason = fields.text('reason')
      const change = on ? { on, reason } : { on, ...(reason !== '' && { reason }) }
      await performAction(on ? 'reminders_stopped' : 'reminders_resumed', (tx) =>
        setKillSwitch(tx, session.account.id, change, actionContext),
      )
      const [installation, own] = await readSwitches(session, deps)
      return { json: represent(installation, own), location: PATH }
    },
    async rerender({ session, fields, now }, problem, deps) {
      const [installation, own] = await readSwitches(session, deps)
      const rejected = { reason: fields.text('reason'), problem }
      return (frame) => renderSwitch(frame, { session, installation, own, now }, rejected)
    },
  }
}

function readSwitches({ account }: Session, { database }: Pick<SettingsDeps, 'database'>) {
  return readKillSwitches(database.read, account.id)
}

/** Represents the account's switch, and the switch with which the operator stops the reminders of all accounts. */
function represent(installation: KillSwitch, own: KillSwitch) {
  return { ...renderKillSwitch(own), installation: renderKillSwitch(installation) }
}

interface SwitchView {
  readonly session: Session
  /** The switch with which the operator stops the reminders of all accounts. */
  readonly installation: KillSwitch
  /** The account's switch. */
  readonly own: KillSwitch
  readonly now: Date
}

/** The rejected form, which stops or resumes reminders, and is shown again. */
interface RejectedSwitch {
  readonly reason: string
  readonly problem: Problem
}

function renderSwitch(
  frame: Frame,
  { session, installation, own, now }: SwitchView,
  rejected?: RejectedSwitch,
): Html {
  const times = { now, timezone: session.account.timezone }
  const isAdmin = session.user.role === 'admin'
  const by =
    own.changedAt !== null &&
    html`${timeAgo(own.changedAt, times)} by <span translate="no">${own.changedBy}</span>`
  const main = html`<p class="back"><a href="/settings/reminders">Reminders</a></p>
<h1>Kill switch</h1>
<p class="lead">While the kill switch is on, no reminder of your account is sent, not even one that is due now. Waiting
reminders are not sent later either: when you resume, reminders that are then due are planned anew.</p>
${
  installation.isOn &&
  html`<section class="card"><h2>The operator of this service has stopped all reminders</h2>
<p>${installation.reason}</p><p class="hint">${installation.changedAt !== null && timeAgo(installation.changedAt, times)}</p></section>`
}
<section class="card stack" aria-labelledby="state">
<h2 id="state">${own.isOn ? 'Reminders of your account are stopped' : 'Reminders of your account are not stopped'}</h2>
${own.isOn ? html`<p>${own.reason}</p><p class="hint">Stopped ${by}.</p>` : by && html`<p class="hint">Resumed ${by}.</p>`}
${isAdmin && own.isOn && renderFaults(rejected?.problem)}
${isAdmin && (own.isOn ? renderResumeForm(frame) : renderStopForm(frame, rejected))}
${!isAdmin && html`<p class="hint">${ADMINS_ONLY}</p>`}
</section>`
  return renderPage(frame, { title: 'Kill switch', section: '/settings/reminders', main })
}

function renderStopForm(frame: Frame, rejected?: RejectedSwitch): Html {
  return html`${renderFaults(rejected?.problem)}
<form method="post" action="${PATH}/on" class="stack" data-once novalidate>${csrfField(frame)}
<p class="field"><label for="reason">Reason</label>
<input id="reason" name="reason" value="${rejected?.reason}" maxlength="500" autocomplete="off" required${describedBy(rejected?.problem, 'reason', 'reason-hint')}></p>
<p class="hint" id="reason-hint">Every user of your account sees the reason on every page.</p>
${renderFault(rejected?.problem, 'reason')}
<p><button class="danger solid">Stop all reminders</button></p></form>`
}

function renderResumeForm(frame: Frame): Html {
  return html`<form method="post" action="${PATH}/off" class="stack" data-once>${csrfField(frame)}
<p class="hint">Reminders that are due are planned anew. They are sent in each customer’s business hours, the first ones within a minute if those hours have begun, and at most one a day to each customer. Firm and final reminders wait for approval first.</p>
<p><button class="primary">Resume reminders</button></p></form>`
}

/** A link to the page of the kill switch opens this dialog. Without the script, the link opens the page instead. */
export function renderStopDialog(frame: Frame): Html {
  return html`<dialog id="stop-dialog" role="alertdialog" aria-labelledby="stop-title" aria-describedby="stop-text">
<h2 id="stop-title">Stop all reminders?</h2>
<p id="stop-text">No reminder is sent from now on, not even one that is due now. Waiting reminders are not sent later either.</p>
<form method="post" action="${PATH}/on" class="stack" data-once>${csrfField(frame)}
<p class="field"><label for="stop-reason">Reason</label>
<input id="stop-reason" name="reason" maxlength="500" autocomplete="off" required autofocus></p>
<p class="row"><button type="button" data-close>Cancel</button>
<button class="danger solid">Stop all reminders</button></p></form></dialog>`
}
