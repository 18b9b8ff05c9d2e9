import type { AuditAction } from '../../accounts/audit.ts'
import type { AuditRow } from '../../database/tables.ts'
import type { Html } from '../../html/html.ts'
import { renderMoney } from '../shell/ledger-words.ts'

const WORDS: Readonly<Record<AuditAction, string>> = {
  'account.changed': 'Changed the account',
  'account.created': 'Created the account',
  'account.status_changed': 'Changed the account’s status',
  'account.scopes_changed': 'Changed the account-wide permissions of keys',
  'account.chasing_changed': 'Changed when reminders are sent',
  'account.reply_address_changed': 'Changed where replies go',
  'account.apply_credit_changed': 'Changed how money on account is used',
  'account.test_reminder_sent': 'Sent a test reminder to themselves',
  'account.sender_changed': 'Changed the sender name of reminders',
  'account.logo_changed': 'Changed the logo of reminders',
  'account.logo_removed': 'Removed the logo of reminders',
  'account.wording_changed': 'Changed the wording of a reminder',
  'account.wording_reset': 'Restored the default wording of a reminder',
  'account.payment_details_changed': 'Changed the payment details',
  'account.payment_details_removed': 'Removed the payment details',
  'account.second_factor_policy_changed':
    'Changed whether Admins must use two-factor authentication',
  'account.exported': 'Exported the account',
  'account.list_downloaded': 'Downloaded a list',
  'reminders.rehearsed': 'Ran a rehearsal of reminders',
  // The stored names mean that the kill switch was activated and released.
  'kill_switch.put_on': 'Stopped all reminders',
  'kill_switch.put_off': 'Resumed reminders',
  'message.approved': 'Approved a reminder',
  'message.rejected': 'Rejected a reminder',
  'message.approval_taken_back': 'Took back an approval',
  'ledger.imported': 'Imported a file',
  'ledger.import_taken_back': 'Took back an import',
  'debtor.edited': 'Changed a customer',
  'debtor.archived': 'Archived a customer',
  'debtor.restored': 'Restored a customer',
  'debtor.created': 'Added a customer',
  'debtor.erased': 'Erased a customer',
  'debtor.chasing_paused': 'Paused reminders to a customer',
  'debtor.chasing_resumed': 'Resumed reminders to a customer',
  'debtor.invoices_resumed': 'Resumed reminders about blocked invoices',
  'debtor.contactability_cleared': 'Confirmed that an address works',
  'debtor.ladder_changed': 'Changed a customer’s schedule',
  'address.bounced': 'Mail to an address bounced',
  'address.complained': 'A recipient reported our mail as unwanted',
  'address.unsubscribed': 'A recipient unsubscribed',
  'address.resubscribed': 'A recipient subscribed again',
  'invoice.created': 'Entered an invoice',
  'invoice.edited': 'Changed an invoice',
  'invoice.finalised': 'Finalized an invoice',
  'invoice.voided': 'Voided an invoice',
  'invoice.written_off': 'Wrote off an invoice',
  'invoice.disputed': 'Recorded a dispute',
  'invoice.dispute_resolved': 'Resolved a dispute',
  'invoice.chasing_resumed': 'Resumed reminders about an invoice',
  'invoice.credited': 'Credited an invoice',
  'payment.allocated': 'Allocated money on account',
  'payment.allocation_taken_back': 'Took back an allocation',
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
  'webhook_endpoint.old_secret_expired': 'Expired the old webhook secret early',
  'webhook_endpoint.redelivered_failed': 'Redelivered failed webhooks',
  'webhook_delivery.redelivered': 'Redelivered a webhook',
  'user.created': 'A user joined',
  'user.invited': 'Invited someone',
  'user.invitation_withdrawn': 'Withdrew an invitation',
  'user.role_changed': 'Changed a role',
  'user.deactivated': 'Deactivated a login',
  'user.reactivated': 'Reactivated a login',
  'user.password_reset': 'Reset a forgotten password',
  'user.password_changed': 'Changed their password',
  'user.logged_in': 'Logged in',
  'user.second_factor_enabled': 'Set up a second factor',
  'user.second_factor_disabled': 'Removed a second factor',
  'user.recovery_codes_replaced': 'Replaced the recovery codes',
  'user.recovery_code_used': 'Logged in with a recovery code',
  'user.second_factor_failed': 'Entered a wrong code',
  'user.logged_in_with_passkey': 'Logged in with a passkey',
  'user.passkey_added': 'Added a passkey',
  'user.passkey_renamed': 'Renamed a passkey',
  'user.passkey_removed': 'Removed a passkey',
  'user.passkey_failed': 'Used a passkey that was not accepted',
  'user.notices_changed': 'Changed which notices are mailed to them',
  'user.session_ended': 'Ended a session',
  'user.login_failed': 'Failed to log in',
  'user.confirmation_failed': 'Entered a wrong password while logged in',
  'user.logged_out': 'Logged out',
  'user.logged_out_everywhere': 'Logged out everywhere',
}

const WORDS_BY_ACTION: ReadonlyMap<string, string> = new Map(Object.entries(WORDS))

export const AUDIT_ACTIONS: readonly string[] = [...WORDS_BY_ACTION.keys()]

/** The groups of actions in the filter. A group contains the actions whose names begin with one of its subjects. */
const GROUPS: readonly (readonly [name: string, ...subjects: string[]])[] = [
  ['People', 'user'],
  ['Customers', 'debtor', 'address'],
  ['Invoices', 'invoice'],
  ['Payments', 'payment'],
  ['Reminders', 'message', 'reminders', 'kill_switch'],
  ['Imports', 'ledger'],
  ['API keys', 'api_key'],
  ['Webhooks', 'webhook_endpoint', 'webhook_delivery'],
  ['Account', 'account'],
]

export const ACTION_GROUPS = GROUPS.map(([name, ...subjects]) => {
  const actions = AUDIT_ACTIONS.filter((action) => subjects.includes(action.split('.')[0] ?? ''))
  return [name, actions] as const
})

/** If only a later version of the program knows the action, returns its stored name. */
export function auditWords({ action }: Pick<AuditRow, 'action'>): string {
  return WORDS_BY_ACTION.get(action) ?? action
}

const SHOWN_DETAILS = [
  ...['name', 'prefix', 'email', 'role', 'scopes', 'status', 'url', 'number', 'stage', 'address'],
  ...['changed', 'reason', 'until', 'reply_to', 'apply_credit', 'file', 'list'],
]

/** Renders the details in `SHOWN_DETAILS`, e.g. as `ERP · rcv_7Qd4xK2m`. `json` contains all details of the entry. */
export function detailWords(json: string): string {
  const detail: unknown = JSON.parse(json)
  if (typeof detail !== 'object' || detail === null) return ''
  return Object.entries(detail)
    .filter(([name, value]) => SHOWN_DETAILS.includes(name) && value !== null)
    .map(([, value]) => (Array.isArray(value) ? value.join(', ') || 'nothing' : String(value)))
    .join(' · ')
}

export function readReasonAndAmount({ detail }: Pick<AuditRow, 'detail'>): {
  readonly reason: string | undefined
  readonly amount: Html | undefined
} {
  const members: { reason?: unknown; amount?: unknown; currency?: unknown } = JSON.parse(detail)
  const { reason, amount, currency } = members
  return {
    reason: typeof reason === 'string' ? reason : undefined,
    amount:
      typeof amount === 'number' && typeof currency === 'string'
        ? renderMoney(amount, currency)
        : undefined,
  }
}
