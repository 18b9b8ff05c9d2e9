import type { Logo } from '../accounts/logo.ts'

export interface Mail {
  /**
   * The result of `Mailer.messageIdOf`, e.g. `<msg_…@host>`. It is the same for every attempt, so that mail servers
   * can recognize duplicates.
   */
  readonly messageId: string
  /** A single address. */
  readonly to: string
  /** The sender's name, e.g. the creditor's. The sender's address is always the one in `MAIL_FROM`. */
  readonly fromName: string
  /** An address to which replies are sent in addition to `MAIL_FROM`. */
  readonly replyTo?: string | undefined
  readonly subject: string
  readonly text: string
  readonly html: string
  /** An inline attachment, which the HTML shows. */
  readonly logo?: Logo | undefined
  /** The URL of the one-click unsubscribe header (RFC 8058). */
  readonly unsubscribeUrl?: string | undefined
}

/**
 * The result of a hand-over:
 *
 * - `accepted`: the server accepted the mail, or the mail was written to a file.
 * - `refused`: the server rejected the recipient or the message, or nothing was sent to the server (see `code`). If
 *   `type` is `hard`, the rejection is permanent.
 * - `abandoned`: the mail was not sent, or not accepted, for a reason that does not show whether the recipient's
 *   address is valid (not started in time, process stopping, server unavailable, login or sender rejected). The mail
 *   may be handed over again. If `isDenied` is set, the server does not relay mail to this recipient, but may relay
 *   mail to others.
 * - `unknown`: the transfer of the mail began, but the server's final reply did not arrive. The mail may have arrived.
 */
export type HandOverResult =
  | {
      readonly outcome: 'accepted'
      /** The server's queue id, to which delivery reports may refer; null if it is unknown. */
      readonly providerMessageId: string | null
    }
  | {
      readonly outcome: 'refused'
      readonly type: 'hard' | 'soft'
      /**
       * The enhanced status code (RFC 3463), e.g. `5.1.1`, or the reply code if the server sent no enhanced code.
       * `reserved_domain` if the mailer itself rejected the address; `outdated` if the mail is a notice (see outbox.ts)
       * that no longer applies.
       */
      readonly code: string
      readonly detail: string
    }
  | { readonly outcome: 'abandoned'; readonly detail: string; readonly isDenied?: true }
  | { readonly outcome: 'unknown'; readonly detail: string }

export interface Mailer {
  /**
   * Hands the mail over. Never throws. Sends nothing if the hand-over cannot start by `startBefore`. A hand-over that
   * has started ends at most `HAND_OVER_MS_MAX` after `startBefore`.
   */
  send(mail: Mail, options: { readonly startBefore: Date }): Promise<HandOverResult>
  /** Returns the Message-ID for an id such as `msg_…`. */
  messageIdOf(id: string): string
  /** Abandons hand-overs that have not started, and waits some seconds for the others. */
  close(): Promise<void>
}

/**
 * The longest time from `startBefore` to the end of a hand-over. A worker's lease on a mail must end later, or another
 * worker would send the mail too. RFC 5321 allows the server ten minutes for its final reply, but servers rarely need
 * more than one minute. If a server needs longer, the mail may be sent twice.
 */
export const HAND_OVER_MS_MAX = 60_000
