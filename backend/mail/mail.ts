/** One e-mail, and what can come of handing it over. */

/** Ready to leave: texts are written, the recipient decided. */
export interface Mail {
  /** `<msg_…@host>` by `messageIdOf`: the same at every attempt, so that receivers know a repeat. */
  readonly messageId: string
  /** One address. */
  readonly to: string
  /** As whom it is sent, e.g. the creditor's name; the address is that of `MAIL_FROM`. */
  readonly fromName: string
  /** Where replies go besides to `MAIL_FROM`. */
  readonly replyTo?: string | undefined
  readonly subject: string
  readonly text: string
  readonly html: string
  /** Offered to mail programs too, as one click (RFC 8058). */
  readonly unsubscribeUrl?: string | undefined
}

/**
 * What came of it. `refused` is about the recipient or the message: `hard` will not get better.
 * `abandoned`: nothing left, and it says nothing about the address (begun too late, server away,
 * login or sender refused); the same mail may be handed over again. `isDenied`: to this recipient, by
 * a server that may take others, as a relay does that knows some domains. `unknown`: it broke while or
 * after the text was sent, so it may have arrived; a repeat carries the same Message-ID.
 */
export type HandOff =
  | { readonly outcome: 'accepted'; readonly providerMessageId: string | null }
  | {
      readonly outcome: 'refused'
      readonly type: 'hard' | 'soft'
      /** Enhanced status code (RFC 3463) where there is one, e.g. `5.1.1`, else the reply's; or `reserved_domain`. */
      readonly code: string
      readonly detail: string
    }
  | { readonly outcome: 'abandoned'; readonly detail: string; readonly isDenied?: true }
  | { readonly outcome: 'unknown'; readonly detail: string }

export interface Mailer {
  /**
   * Never throws. Nothing leaves that has not begun by `startBefore`. Ends at most
   * `HAND_OFF_MS_MAX` after that.
   */
  send(mail: Mail, options: { readonly startBefore: Date }): Promise<HandOff>
  /** The Message-ID of what has this id, e.g. `msg_…`. */
  messageIdOf(id: string): string
  /** Abandons what has not begun, and waits some seconds for what has. */
  close(): Promise<void>
}

/**
 * From `startBefore` to the end of a hand-off, at most: leases on messages must be longer. RFC 5321
 * would wait ten minutes for the last reply; what comes after a minute is rare and costs a repeat.
 */
export const HAND_OFF_MS_MAX = 60_000
