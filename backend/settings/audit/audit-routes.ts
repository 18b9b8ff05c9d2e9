/** The audit log: actor, action, time and origin of each change, newest first. */
import { type AuditAction, listAudit } from '../../accounts/audit.ts'
import type { AuditRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { renderPage } from '../shell/layout.ts'
import { limitOf, listOf, pageOf } from '../shell/list-query.ts'
import type { SessionPage } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { timeAgo } from '../shell/words.ts'

const PATH = '/settings/audit-log'

export const auditPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    admins: 'Only an Admin can see the audit log.',
    async handle({ session, query, now }, { database }) {
      const { account } = session
      const limit = limitOf(query.get('limit') ?? undefined)
      const before = query.get('before') ?? undefined
      const found = await listAudit(database.read, account.id, limit + 1, before)
      const { rows, next } = pageOf(found, limit)
      return {
        json: listOf(rows.map(representEntry), next),
        page: (frame) => renderAudit(frame, rows, { next, now, timezone: account.timezone }),
      }
    },
  },
]

function representEntry(row: AuditRow) {
  const detail: unknown = JSON.parse(row.detail)
  return {
    id: row.id,
    action: row.action,
    actor: { type: row.actor_type, id: row.actor_id, label: row.actor_label },
    subject_id: row.subject_id,
    detail,
    address: row.address,
    created_at: row.created_at,
  }
}

const WORDS: Readonly<Record<AuditAction, string>> = {
  'account.changed': 'Changed the account',
  'account.created': 'Created the account',
  'account.status_changed': 'Changed the account’s state',
  'account.scopes_changed': 'Changed what keys may do at most',
  'account.chasing_changed': 'Changed when reminders are sent',
  'account.reply_address_changed': 'Changed where replies go',
  'account.apply_credit_changed': 'Changed what becomes of money on account',
  'account.test_reminder_sent': 'Sent a test reminder to themselves',
  'account.wording_changed': 'Changed the wording of a reminder',
  'account.wording_reset': 'Brought the default wording of a reminder back',
  'account.payment_details_changed': 'Changed how customers pay',
  'account.payment_details_removed': 'Removed how customers pay',
  'account.second_factor_policy_changed': 'Changed whether Admins need a second factor',
  'account.exported': 'Exported the account',
  'reminders.rehearsed': 'Rehearsed reminders',
  'kill_switch.put_on': 'Stopped all reminders',
  'kill_switch.put_off': 'Resumed reminders',
  'message.approved': 'Approved a reminder',
  'message.rejected': 'Rejected a reminder',
  'ledger.imported': 'Imported a file',
  'debtor.edited': 'Changed a customer',
  'debtor.archived': 'Archived a customer',
  'debtor.restored': 'Took a customer out of the archive',
  'debtor.created': 'Added a customer',
  'debtor.erased': 'Erased a customer',
  'debtor.chasing_paused': 'Paused a customer',
  'debtor.chasing_resumed': 'Resumed a customer',
  'debtor.invoices_resumed': 'Had held invoices chased',
  'debtor.contactability_cleared': 'Said that an address works',
  'debtor.ladder_changed': 'Changed a customer’s schedule',
  'address.bounced': 'Mail to an address came back',
  'address.complained': 'A recipient reported our mail',
  'address.unsubscribed': 'A recipient unsubscribed',
  'address.resubscribed': 'A recipient subscribed again',
  'invoice.created': 'Entered an invoice',
  'invoice.edited': 'Changed an invoice',
  'invoice.finalised': 'Finalised an invoice',
  'invoice.voided': 'Voided an invoice',
  'invoice.written_off': 'Wrote an invoice off',
  'invoice.disputed': 'Noted a dispute',
  'invoice.dispute_resolved': 'Resolved a dispute',
  'invoice.chasing_resumed': 'Had an invoice chased again',
  'invoice.credited': 'Credited an invoice',
  'payment.allocated': 'Allocated money on account',
  'payment.allocation_taken_back': 'Took an allocation back',
  'payment.reversed': 'Reversed a payment',
  'api_key.issued': 'Issued a key',
  'api_key.updated': 'Changed a key',
  'api_key.rotated': 'Rotated a key',
  'api_key.revoked': 'Revoked a key',
  'webhook_endpoint.created': 'Added a webhook endpoint',
  'webhook_endpoint.updated': 'Changed a webhook endpoint',
  'webhook_endpoint.paused': 'Paused a webhook endpoint',
  'webhook_endpoint.resumed': 'Resumed a webhook endpoint',
  'webhook_endpoint.disabled': 'Disabled a webhook endpoint',
  'webhook_endpoint.deleted': 'Deleted a webhook endpoint',
  'webhook_endpoint.tested': 'Sent a test event',
  'webhook_endpoint.secret_rotated': 'Rotated a webhook secret',
  'webhook_endpoint.old_secret_expired': 'Expired an old webhook secret',
  'webhook_endpoint.redelivered_failed': 'Had failed webhooks sent again',
  'webhook_delivery.redelivered': 'Had a webhook sent again',
  'user.created': 'Joined',
  'user.invited': 'Invited someone',
  'user.invitation_withdrawn': 'Withdrew an invitation',
  'user.role_changed': 'Changed a role',
  'user.deactivated': 'Deactivated a login',
  'user.reactivated': 'Reactivated a login',
  'user.password_reset': 'Reset the password',
  'user.password_changed': 'Changed the password',
  'user.logged_in': 'Logged in',
  'user.second_factor_enabled': 'Set up a second factor',
  'user.second_factor_disabled': 'Removed a second factor',
  'user.recovery_codes_replaced': 'Replaced the recovery codes',
  'user.recovery_code_used': 'Logged in with a recovery code',
  'user.second_factor_failed': 'Entered a wrong code',
  'user.session_ended': 'Ended a session',
  'user.login_failed': 'Login failed',
  'user.logged_out': 'Logged out',
  'user.logged_out_everywhere': 'Logged out everywhere',
}

const WORDS_BY_ACTION: ReadonlyMap<string, string> = new Map(Object.entries(WORDS))

interface AuditView {
  readonly next: string | null
  readonly now: Date
  readonly timezone: string
}

function renderAudit(frame: Frame, rows: readonly AuditRow[], view: AuditView): Html {
  const main = html`<h1>Audit log</h1>
<p class="lead">Who did what, when, and from where. Nothing is ever taken out.</p>
${
  rows.length === 0
    ? html`<div class="card empty"><p>Nothing more.</p></div>`
    : html`<table class="keys log"><caption class="unseen">Audit log, the newest first</caption>
<thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Who</th><th scope="col">From</th></tr></thead>
<tbody>${rows.map((row) => renderEntry(row, view))}</tbody></table>`
}
${view.next !== null && html`<p><a class="button" href="${PATH}?before=${view.next}">Older</a></p>`}`
  return renderPage(frame, { title: 'Audit log', place: PATH, main })
}

function renderEntry(row: AuditRow, view: AuditView): Html {
  const detail = detailWords(row.detail)
  return html`<tr>
<td data-label="When">${timeAgo(row.created_at, view)}</td>
<th scope="row" data-label="What">${WORDS_BY_ACTION.get(row.action) ?? row.action}${detail !== '' && html`<span class="detail">${detail}</span>`}</th>
<td data-label="Who" translate="no">${row.actor_label}</td>
<td data-label="From" translate="no">${row.address ?? '–'}</td></tr>`
}

const SHOWN_DETAILS = [
  ...['name', 'prefix', 'email', 'role', 'scopes', 'status', 'url', 'number', 'stage', 'address'],
  ...['changed', 'reason', 'until', 'reply_to', 'apply_credit'],
]

/** Renders the details of an audit entry, e.g. `ERP, rcv_7Qd4xK2m`. */
function detailWords(column: string): string {
  const detail: unknown = JSON.parse(column)
  if (typeof detail !== 'object' || detail === null) return ''
  return Object.entries(detail)
    .filter(([name, value]) => SHOWN_DETAILS.includes(name) && value !== null)
    .map(([, value]) => (Array.isArray(value) ? value.join(', ') || 'nothing' : String(value)))
    .join(' · ')
}
