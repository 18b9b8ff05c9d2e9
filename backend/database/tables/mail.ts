/** A message's text as HTML, stored separately because lists of messages do not need it. */
export interface MessageHtmlRow {
  message_id: string
  account_id: string
  html: string
  /** The account's `sender_name` when the HTML was written; null: the mail shows the account's name. */
  sender_name: string | null
  /** The id of the logo in the HTML; null: no logo. */
  logo_id: string | null
}

/** An address to which an account sends no reminders. An address has one row for each reason. */
export interface SuppressedAddressRow {
  account_id: string
  /** In lower case. */
  address: string
  reason: 'bounced' | 'complained' | 'unsubscribed'
  /** The text of the bounce; null for other reasons. */
  detail: string | null
  /** The message that caused the suppression; null if the recipient unsubscribed. */
  message_id: string | null
  created_at: string
}

/** A received mail that refers to a sent message. It is stored so that a mail that arrives twice takes effect once. */
export interface InboundMailRow {
  /** SHA-256 of the raw mail, base64url. */
  digest: string
  kind: 'bounce' | 'delay' | 'delivery' | 'complaint' | 'reply' | 'auto_reply' | 'unknown'
  /** Null only in rows of early versions, which also stored mails that refer to no message. */
  account_id: string | null
  /** The sent message that the mail reports on or replies to; null if `account_id` is null. */
  message_id: string | null
  /** The sender that the mail states, which is not verified; null if there is none or the debtor was erased. */
  sender: string | null
  received_at: string
}

/** A notice to Admins, to one user or to an invited person, sent by e-mail. */
export interface NoticeRow {
  id: string
  account_id: string
  /** e.g. `webhook_endpoint.disabled`. */
  kind: string
  /** The id of what the notice is about, such as an endpoint or a user (see `NoticeDetails`). */
  subject_id: string
  /** JSON object. */
  detail: string
  created_at: string
  /** When the notice was dispatched: one mail for each recipient was then put into the outbox. Null until then. */
  mailed_at: string | null
}

/** A kind of notice that a person does not receive by mail. */
export interface MutedNoticeRow {
  account_id: string
  user_id: string
  kind: string
  created_at: string
}

/** The mail of a notice to one recipient. */
export interface MailOutboxRow {
  id: string
  account_id: string
  notice_id: string
  recipient: string
  status: 'pending' | 'sent' | 'failed'
  attempts: number
  /** The next attempt, or the end of the lease; null if there is no next attempt. */
  run_at: string | null
  /** The lease of the worker that sends the mail. */
  lease: string | null
  last_error: string | null
  created_at: string
  updated_at: string
}

export interface MailTables {
  message_html: MessageHtmlRow
  suppressed_addresses: SuppressedAddressRow
  inbound_mail: InboundMailRow
  notices: NoticeRow
  muted_notices: MutedNoticeRow
  mail_outbox: MailOutboxRow
}
