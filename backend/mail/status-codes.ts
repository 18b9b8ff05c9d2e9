/**
 * Determines from SMTP codes (RFC 5321, RFC 3463) whether the cause of a failure is the address, a transient condition
 * or our own configuration.
 */
import { truncate } from '../validation/truncate.ts'

export interface Reply {
  /** The reply code of three digits. */
  readonly status: number
  /** The enhanced code of three numbers, e.g. `5.1.1`; undefined if the server sent none. */
  readonly enhanced: string | undefined
  readonly text: string
}

export function parseReply(text: string): Reply | undefined {
  const [, status, enhanced] =
    /^(\d{3})(?:[ -]([245]\.\d{1,3}\.\d{1,3})(?= |$))?/.exec(text.trim()) ?? []
  return status === undefined
    ? undefined
    : { status: Number(status), enhanced, text: oneLine(text) }
}

/**
 * Why a mail was not accepted. `hard` and `soft`: the server rejected the recipient or the mail, permanently or
 * temporarily. `general`: the server closes the connection, cannot work at present, or rejects how we send (protocol,
 * login, sender address), so it would accept no other mail either. `denied`: the server does not let us send to this
 * recipient, but may accept mail to others.
 */
export type FailureCause = 'hard' | 'soft' | 'general' | 'denied'

/** Interprets the reply to RCPT TO (`recipient`), or to DATA and the text (`text`). */
export function failureCauseOf(
  { status, enhanced }: Reply,
  phase: 'recipient' | 'text',
): FailureCause {
  // After any command, this code means that the server closes the connection.
  if (status === 421) return 'general'
  const subjectAndDetail = enhanced?.slice(2)
  // Without its class, the enhanced code begins with 3 if the reason is the mail system (except 3.4: the mail is too
  // large), and with 5 if it is the protocol; 1.7 and 1.8 concern our sender address.
  const isGeneral = /^(?:3\.(?!4$)|5\.|1\.[78]$)/.test(subjectAndDetail ?? '')
  if (isGeneral) return 'general'
  if (status < 500) return 'soft'
  if (subjectAndDetail !== undefined && subjectAndDetail !== '0.0') {
    // In a reply to RCPT TO, a policy code (7.x) concerns the sender, which is us: relaying denied, login required.
    return phase === 'recipient' && subjectAndDetail.startsWith('7.')
      ? 'denied'
      : // The reply code begins with 5, so the class is 5, even if the enhanced code begins with another number.
        bounceTypeOf(`5.${subjectAndDetail}`)
  }
  // Without a reason, a rejection of the text does not show that the address is invalid.
  if (phase === 'text') return 'soft'
  // The server requires a login or TLS.
  if (status === 530) return 'general'
  return bounceTypeOfReply(status)
}

/** Interprets a reply that has no enhanced code, or one that gives no reason (4.0.0 or 5.0.0). */
export function bounceTypeOfReply(status: number): 'hard' | 'soft' {
  // These codes mean that the user is unknown or not local, the mailbox name is invalid, or the host accepts no mail.
  // Other codes may have a transient cause, such as a full mailbox.
  return [550, 551, 553, 556].includes(status) ? 'hard' : 'soft'
}

/**
 * Interprets the enhanced code of a delivery report (RFC 3464), or of a reply whose code gives a reason (see
 * `bounceTypeOfReply` for others). The failure is permanent (`hard`) if the address is invalid, disabled or
 * unreachable, or if a report gives no reason (5.0.0). Any other failure may be transient (`soft`).
 */
export function bounceTypeOf(enhanced: string): 'hard' | 'soft' {
  if (!enhanced.startsWith('5.')) return 'soft'
  return /^5\.(?:0\.0|1\.(?![78]$)\d+|2\.1|4\.[14])$/.test(enhanced) ? 'hard' : 'soft'
}

const LINE_CHARS_MAX = 300

/** Returns the text in one line, truncated to `LINE_CHARS_MAX` characters. */
export function oneLine(text: string): string {
  return truncate(text.replace(/[\p{Cc}\s]+/gu, ' ').trim(), LINE_CHARS_MAX)
}
