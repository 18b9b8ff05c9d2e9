/** Rows of what mail keeps. */

/** A message's text as HTML, apart from the messages, whose lists have no use for it. */
export interface MessageHtmlRow {
  message_id: string
  account_id: string
  html: string
}

/** An address that an account does not write to, once for each reason. */
export interface SuppressedAddressRow {
  account_id: string
  /** Lower case. */
  address: string
  reason: 'bounced' | 'complained' | 'unsubscribed'
  /** What the server or the complaint said. */
  detail: string | null
  /** The message that it came of. */
  message_id: string | null
  created_at: string
}

/** What came in, so that the same mail posted twice has its effect once. */
export interface InboundMailRow {
  /** SHA-256 of the raw message, base64url. */
  digest: string
  kind: 'bounce' | 'delay' | 'delivery' | 'complaint' | 'reply' | 'auto_reply' | 'unknown'
  account_id: string | null
  /** Of ours, which it is about or answers. */
  message_id: string | null
  /** As it claims; in clear. */
  sender: string | null
  received_at: string
}

/** What Admins are to be told by e-mail. */
export interface NoticeRow {
  id: string
  account_id: string
  /** e.g. `webhook_endpoint.disabled`. */
  kind: string
  subject_id: string
  /** JSON object. */
  detail: string
  created_at: string
  mailed_at: string | null
}

/** A notice on its way to one address. */
export interface MailOutboxRow {
  id: string
  account_id: string
  notice_id: string
  recipient: string
  status: 'pending' | 'sent' | 'failed'
  attempts: number
  /** The next attempt, or the end of the lease; null where there is no next. */
  run_at: string | null
  /** Who sends it now. */
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
  mail_outbox: MailOutboxRow
}
