/** The messages that the next page shows after an action. */

const WORDS = {
  account_resumed:
    'Account resumed. Reminders that are due are sent in business hours, and API keys can write again.',
  key_issued: 'Key issued. It cannot be shown again.',
  key_rotated: 'Key rotated. Switch your integration to the new key before the old key expires.',
  key_replaced: 'Key rotated. The old key no longer works.',
  key_changed: 'Key changed. The change applies from the next call on.',
  key_revoked: 'Key revoked. Calls with it are rejected from now on.',
  scopes_changed: 'Permissions changed. The change applies from the next call on.',
  webhook_already_added:
    'This endpoint was already added, and is not added again. If you did not store its signing secret, rotate the secret.',
  webhook_changed: 'Endpoint changed.',
  webhook_deleted: 'Endpoint deleted. No more events are sent to it.',
  webhook_paused: 'Endpoint paused. Events wait until you resume it.',
  webhook_resumed: 'Endpoint resumed. Events that waited are being sent.',
  webhook_secret_expired: 'The old secret has expired. Webhooks are signed with the new one only.',
  webhook_being_sent: 'The event is already being sent, so it is not sent again.',
  webhook_redelivered: 'The event is being sent again.',
  webhooks_redelivered: 'Failed deliveries are being sent again.',
  webhooks_redelivered_partly:
    'Many failed deliveries are being sent again, the newest first. To send the others too, redeliver again.',
  customer_created: 'Customer added.',
  invoice_edited: 'Invoice changed.',
  invoice_created: 'Invoice entered.',
  customer_changed: 'Customer changed.',
  customer_paused: 'Reminders paused. No reminder is sent to this customer during the pause.',
  customer_resumed: 'Reminders resumed. They continue from where they stopped.',
  customer_invoices_resumed:
    'Reminders resumed for the invoices that were blocked, except disputed ones.',
  old_invoices_chased: 'Reminders about the old invoices are sent in business hours.',
  customer_archived: 'Customer archived. No more reminders are sent.',
  customer_restored: 'Customer restored. Reminders continue from where they stopped.',
  customer_cleared: 'Confirmed. All customers with this address can receive mail again.',
  customer_schedule: 'The customer’s schedule was changed.',
  invoice_finalised: 'Invoice finalized. The customer now owes it.',
  invoice_voided: 'The invoice is void.',
  invoice_written_off: 'Invoice written off. No more reminders are sent about it.',
  invoice_disputed:
    'Dispute recorded. No reminder is sent about the invoice until the dispute is resolved.',
  invoice_resolved: 'Dispute resolved. Reminders about the invoice continue.',
  invoice_resolved_blocked:
    'Dispute resolved. Reminders are blocked again for the reason that applied before the dispute.',
  invoice_resumed: 'Reminders about the invoice continue.',
  payment_recorded: 'Payment recorded.',
  payment_allocated: 'Money allocated.',
  payment_taken_back: 'Allocation taken back. The money is on account again.',
  invoice_credited: 'Credit recorded.',
  payment_reversed: 'Payment reversed. The invoices that it paid are owed again.',
  reminders_stopped: 'Reminders are stopped.',
  account_changed: 'Saved.',
  reminders_resumed:
    'Reminders resumed. Reminders that were waiting at the time of the stop are not sent.',
  schedule_changed:
    'Schedule changed. Changed stages apply only to reminders that are scheduled from now on.',
  payment_details_changed: 'Saved. From now on, reminders in this currency say how to pay.',
  wording_changed: 'Saved. Reminders that wait for approval are rewritten.',
  sender_changed: 'Saved. Reminders that wait for approval are rewritten.',
  logo_removed: 'Logo removed. Reminders show your name instead.',
  wording_reset: 'The default wording was restored.',
  test_mail_sent: 'The test mail is on its way to you.',
  test_mail_file:
    'The test mail was written to a file, because this service has no mail server. Ask the operator of the service for the directory.',
  test_mail_dropped:
    'No test mail was sent: the domain of your address is reserved for examples and receives no mail.',
  test_mail_waiting:
    'The test mail is waiting, because this service does not send mail at present.',
  payment_details_removed:
    'Payment details removed. Reminders in this currency no longer say how to pay, unless an invoice has its own payment link.',
  message_approved:
    'Approved. The reminder is sent when the customer’s next business hours begin or, if another reminder was already sent today, on the next business day.',
  message_approved_now: 'Approved. The reminder is being sent.',
  message_rejected: 'Rejected. The reminder is not sent, and reminders about its invoices stop.',
  decision_taken_back:
    'Decision taken back. If it was an approval, the reminder waits for approval again. If it was a rejection, a new reminder is written in business hours.',
  already_invited:
    'The form was sent twice. This invitation already exists, so no other link was created. For another link, open the form again and invite the person once more.',
  invitation_withdrawn: 'Invitation withdrawn.',
  role_changed: 'Role changed.',
  user_deactivated: 'Login deactivated. This person can no longer log in.',
  user_reactivated: 'Login reactivated. This person can log in again.',
  second_factor_disabled: 'The authenticator app is turned off. Its codes can no longer be used.',
  second_factor_policy: 'Rule changed. It applies to each Admin from the next page that they open.',
  passkey_added: 'Passkey added. You can log in with it.',
  passkey_renamed: 'Passkey renamed.',
  passkey_removed: 'Passkey removed. It can no longer be used to log in.',
  notices_changed: 'Saved. The choice applies from the next notice on.',
  session_ended: 'Session ended.',
  logged_out: 'You are logged out.',
  logged_out_everywhere: 'You are logged out everywhere.',
  password_changed: 'Password changed. You are logged out everywhere else.',
} as const

export type FlashName = keyof typeof WORDS

/** The messages by name. A session may have stored a name that only another version of the service knows. */
export const FLASH_WORDS: ReadonlyMap<string, string> = new Map(Object.entries(WORDS))
