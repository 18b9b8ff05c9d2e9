/**
 * What servers mean by their codes (RFC 5321, RFC 3463), as far as it decides who is at fault: an
 * address that does not exist, a moment that was bad, or us.
 */

export interface Reply {
  /** Of three digits. */
  readonly status: number
  /** Of three numbers, e.g. `5.1.1`; undefined where the server gives none. */
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
 * `ours`: it says nothing about the recipient, and holds for every mail until someone mends it.
 * `denied`: to us, of this recipient; others may be taken.
 */
export type Fault = 'hard' | 'soft' | 'ours' | 'denied'

/** Of what a server said to RCPT TO, or to DATA and the text. */
export function faultOf({ status, enhanced }: Reply, phase: 'recipient' | 'text'): Fault {
  // It is about to close, whatever was asked.
  if (status === 421) return 'ours'
  const subject = enhanced?.slice(2)
  const isTrouble = subject !== undefined && /^[35]\./.test(subject) && subject !== '3.4'
  if (isTrouble || subject === '1.7' || subject === '1.8') return 'ours'
  if (status < 500) return 'soft'
  if (subject !== undefined && subject !== '0.0') {
    // Before the text a policy is about who we are: relaying denied, login required.
    return phase === 'recipient' && subject.startsWith('7.')
      ? 'denied'
      : bounceTypeOf(`5.${subject}`)
  }
  if (phase === 'text') return 'soft'
  if (status === 530) return 'ours'
  // No such user, not here, not a mailbox, no mail at all; others may be about a full mailbox.
  return [550, 551, 553, 556].includes(status) ? 'hard' : 'soft'
}

/** Of the status in a report (RFC 3464): bad addresses are for good, all else may get better. */
export function bounceTypeOf(status: string): 'hard' | 'soft' {
  if (!status.startsWith('5.')) return 'soft'
  return /^5\.(?:0\.0|1\.(?![78]$)\d+|2\.1|4\.[14])$/.test(status) ? 'hard' : 'soft'
}

const DETAIL_MAX = 300

export function oneLine(text: string): string {
  return text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, DETAIL_MAX)
}
