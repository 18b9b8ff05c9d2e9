/** Composes the mail modules: mailer, links, inbound mail, and the worker that sends notices. */
import type { Logger } from '../../shared/process/log.ts'
import type { Worker } from '../background/worker.ts'
import type { Database } from '../database/database.ts'
import { createInvitationCodes, type InvitationCodes } from '../users/invitation-codes.ts'
import { isReservedAddress, type NamedAddress, withoutAddresses } from './addresses.ts'
import type { HandOff, Mailer } from './mail.ts'
import { createMailer } from './mailer.ts'
import { startOutbox } from './outbox.ts'
import type { SmtpAddress } from './smtp-url.ts'
import { createUnsubscribeLinks, type UnsubscribeLinks } from './unsubscribe-links.ts'

export interface PostOfficeOptions {
  readonly database: Database
  /** Undefined: mail is written to files. */
  readonly server: SmtpAddress | undefined
  readonly mailFrom: NamedAddress
  readonly directory: string
  /** The accepted secrets of inbound mail; undefined: inbound mail is off. */
  readonly inboundSecrets: readonly string[] | undefined
  readonly baseUrl: string
  /** Keys of 32 bytes each. The first one encrypts. */
  readonly linkKeys: readonly Buffer[]
  readonly codeKeys: readonly Buffer[]
  /** In a rehearsal no mail is sent: notices wait, and Admins pass invitation links on themselves. */
  readonly isRehearsal?: boolean
  readonly onHandOff?: (handOff: HandOff) => void
  readonly clock: () => Date
  readonly log: Logger
}

/**
 * What happens to a notice: it is `sent` by SMTP, written to a `file` because no mail server is configured,
 * `dropped` because its domain is reserved, or `waiting` for the end of a rehearsal.
 */
export type NoticeRoute = 'sent' | 'file' | 'dropped' | 'waiting'

/** What routes and the workers that send mail need. */
export interface PostOffice {
  readonly mailer: Mailer
  readonly links: UnsubscribeLinks
  readonly inboundSecrets: readonly string[] | undefined
  /** Undefined if invitations are not mailed: Admins then pass the links on themselves. */
  readonly mailedInvitations: InvitationCodes | undefined
  /** Makes and recognizes the codes of links that are mailed to users. */
  readonly codes: InvitationCodes
  /** Returns what would happen to a notice to this address. */
  noticeRouteOf(address: string): NoticeRoute
  /** Returns why the last mail was not sent; undefined if it was sent, or if only its address was wrong. */
  lastError(): string | undefined
  /** Starts sending notices. */
  start(): void
  /** Finishes or releases the notices in progress. */
  close(): Promise<void>
}

export function createPostOffice(options: PostOfficeOptions): PostOffice {
  const { server, baseUrl, linkKeys, codeKeys, inboundSecrets, isRehearsal = false } = options
  let lastError: string | undefined
  const mailer = createMailer({
    ...options,
    wantsReports: inboundSecrets !== undefined,
    onHandOff(handOff) {
      lastError = handOff.outcome === 'abandoned' ? withoutAddresses(handOff.detail) : undefined
      options.onHandOff?.(handOff)
    },
  })
  const codes = createInvitationCodes(codeKeys)
  let outbox: Worker | undefined
  return {
    mailer,
    links: createUnsubscribeLinks(baseUrl, linkKeys),
    inboundSecrets,
    mailedInvitations: server === undefined || isRehearsal ? undefined : codes,
    codes,
    noticeRouteOf(address) {
      if (isRehearsal) return 'waiting'
      if (isReservedAddress(address)) return 'dropped'
      return server === undefined ? 'file' : 'sent'
    },
    lastError: () => lastError,
    start() {
      if (!isRehearsal) outbox = startOutbox({ ...options, mailer, codes })
    },
    async close() {
      await Promise.all([outbox?.stop(), mailer.close()])
    },
  }
}
