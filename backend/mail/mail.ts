/** An e-mail, and the outcomes of its hand-over. */

import type { Logo } from '../accounts/logo.ts'

/** A mail that is ready to be handed over. */
export interface Mail {
  /** `<msg_…@host>` by `messageIdOf`: the same at every attempt, so that receivers recognize a duplicate. */
  readonly messageId: string
  /** One address. */
  readonly to: string
  /** The sender's name, e.g. the creditor's. The address is that of `MAIL_FROM`. */
  readonly fromName: string
  /** An address for replies in addition to `MAIL_FROM`. */
  readonly replyTo?: string | undefined
  readonly subject: string
  readonly text: string
  readonly html: string
  /** Part of the mail, shown by its HTML. */
  readonly logo?: Logo | undefined
  /** The URL of the one-click unsubscribe header (RFC 8058). */
  readonly unsubscribeUrl?: string | undefined
}

/**
 * The outcome of a hand-over. `refused`: the server rejects the recipient or the message; `hard` is permanent.
 * `abandoned`: nothing was sent, for a reason other than the recipient's address (started too late, server
 * unavailable, login or sender rejected); the mail may be handed over again. `isDenied`: the server rejects
 * this recipient but may accept others, like a relay for some domains. `unknown`: the connection failed while
 * or after the text was sent, and the mail may have arrived; a retry has the same Message-ID.
 */
export type HandOff =
  | { readonly outcome: 'accepted'; readonly providerMessageId: string | null }
  | {
      readonly outcome: 'refused'
      readonly type: 'hard' | 'soft'
      /** The enhanced status code (RFC 3463), e.g. `5.1.1`, else the reply code; or `reserved_domain`. */
      readonly code: string
      readonly detail: string
    }
  | { readonly outcome: 'abandoned'; readonly detail: string; readonly isDenied?: true }
  | { readonly outcome: 'unknown'; readonly detail: string }

export interface Mailer {
  /**
   * Hands the mail over. Never throws. Sends nothing if the hand-over cannot start by `startBefore`, and
   * ends at most `HAND_OFF_MS_MAX` after that.
   */
  send(mail: Mail, options: { readonly startBefore: Date }): Promise<HandOff>
  /** The Message-ID for an id, e.g. `msg_…`. */
  messageIdOf(id: string): string
  /** Abandons hand-overs that have not started, and waits some seconds for the others. */
  close(): Promise<void>
}

/**
 * The longest time from `startBefore` to the end of a hand-over; leases on messages must be longer. RFC 5321
 * allows ten minutes for the last reply. A reply after more than a minute is rare, and causes the mail to be
 * sent twice.
 */
export const HAND_OFF_MS_MAX = 60_000
