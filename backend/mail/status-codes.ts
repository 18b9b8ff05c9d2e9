/**
 * Determines from SMTP replies and from the codes of delivery reports (RFC 5321, RFC 3463) whether the cause of a
 * failure is the address, a transient condition or our own configuration.
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
  if (status === undefined) return undefined
  const line = toShortLine(text)
  // qmail writes the enhanced code at the end: `550 sorry, no mailbox here by that name. (#5.1.1)`.
  const atEnd = /\(#([245]\.\d{1,3}\.\d{1,3})\b/.exec(line)?.[1]
  return { status: Number(status), enhanced: enhanced ?? atEnd, text: line }
}

/**
 * Why a mail was not accepted. `hard`: the address is invalid, disabled or unreachable. `soft`: the server rejected the
 * recipient or the mail for a cause that may be transient. `general`: the server closes the connection, cannot work at
 * present, or rejects how we send (protocol, login, sender address), so it would accept no other mail either. `denied`:
 * the server does not let us send to this recipient, but may accept mail to others.
 */
export type FailureCause = 'hard' | 'soft' | 'general' | 'denied'

/** How servers that send no enhanced code, such as Exim and Courier, say that they do not relay our mail. */
const DENIAL =
  /\brelay(?:ing)? (?:not|denied|access|prohibited)|\b(?:to|not|cannot) relay\b|\brequires? authentication\b|\bauthentication (?:is )?required\b|\badministrative prohibition\b/i

/** Interprets the reply to RCPT TO (`recipient`), or to DATA and the text (`text`). */
export function failureCauseOf(reply: Reply, phase: 'recipient' | 'text'): FailureCause {
  const { status, enhanced, text } = reply
  // After any command, this code means that the server closes the connection.
  if (status === 421) return 'general'
  const subjectAndDetail = enhanced?.slice(2)
  // In an enhanced code without its class, 3.x concerns the mail system (except 3.4: the mail is too large), 5.x
  // concerns the protocol, and 1.7 and 1.8 concern our sender address.
  const isGeneral = /^(?:3\.(?!4$)|5\.|1\.[78]$)/.test(subjectAndDetail ?? '')
  if (isGeneral) return 'general'
  const hasReason = subjectAndDetail !== undefined && subjectAndDetail !== '0.0'
  // These codes concern our DKIM signature, SPF record or host name (RFC 7372), or the domain of our sender address
  // (RFC 7505).
  if (hasReason && /^7\.2[0-7]$/.test(subjectAndDetail)) return 'denied'
  // By default, Postfix denies relaying with 454 4.7.1. Greylisting also uses 4.7.1, but with 450 or 451.
  const isDenied = status === 454 || (!hasReason && status !== 530 && DENIAL.test(text))
  if (phase === 'recipient' && isDenied) return 'denied'
  if (status < 500) return 'soft'
  if (hasReason) {
    // In a reply to RCPT TO, a policy code (7.x) concerns us as the sender. For example, relaying is denied.
    return phase === 'recipient' && subjectAndDetail.startsWith('7.')
      ? 'denied'
      : // The reply code begins with 5, so the class is 5, even if the enhanced code begins with another number.
        bounceTypeOf(`5.${subjectAndDetail}`)
  }
  // If the server rejected the content of the mail and gave no reason, the address may still be valid.
  if (phase === 'text') return 'soft'
  // The server requires a login or TLS.
  if (status === 530) return 'general'
  return bounceTypeOfReply(reply)
}

/** How servers that send no enhanced code say that they reject our mail, or the host that sent it, by a policy. */
const POLICY =
  /\bspam|\bblack ?list|\bblock ?list|\bblocked\b|\brbl\b|\breputation\b|\badministrative prohibition\b/i

/** Interprets a reply whose enhanced code is missing or gives no reason (4.0.0 or 5.0.0). */
export function bounceTypeOfReply({ status, text }: Reply): 'hard' | 'soft' {
  // These codes mean that the user is unknown or not local, the mailbox name is invalid, or the host accepts no mail.
  // Other codes may have a transient cause, such as a full mailbox.
  return [550, 551, 553, 556].includes(status) && !POLICY.test(text) ? 'hard' : 'soft'
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
export function toShortLine(text: string): string {
  return truncate(text.replace(/[\p{Cc}\s]+/gu, ' ').trim(), LINE_CHARS_MAX)
}
