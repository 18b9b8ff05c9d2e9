/**
 * Creates the mailer, the worker that sends notices (mails to users), and the objects that make unsubscribe links and
 * the codes of other mailed links.
 */
import type { Logger } from '../../shared/process/log.ts'
import type { Worker } from '../background/worker.ts'
import type { Database } from '../database/database.ts'
import { createMailedCodes, type MailedCodes } from '../users/mailed-codes.ts'
import { isReservedAddress, maskAddresses, type NamedAddress } from './addresses.ts'
import type { HandOverResult, Mailer } from './mail.ts'
import { createMailer } from './mailer.ts'
import { startOutbox } from './outbox.ts'
import type { SmtpAddress } from './smtp-url.ts'
import { createUnsubscribeLinks, type UnsubscribeLinks } from './unsubscribe-links.ts'

export interface MailServicesOptions {
  readonly database: Database
  /** If it is undefined, mail is written to files in `directory`. */
  readonly server: SmtpAddress | undefined
  readonly mailFrom: NamedAddress
  readonly directory: string
  /** The secrets with which the mail server may post received mail; undefined if inbound mail is off. */
  readonly inboundSecrets: readonly string[] | undefined
  readonly baseUrl: string
  /** 32 bytes each. The first key encrypts new links. */
  readonly unsubscribeLinkKeys: readonly Buffer[]
  /** 32 bytes each. The first key generates new codes. */
  readonly mailedCodeKeys: readonly Buffer[]
  /** Whether `REHEARSAL` is on: then no notices are sent, and Admins must pass on invitation links themselves. */
  readonly isRehearsal?: boolean
  readonly onHandOver?: (result: HandOverResult) => void
  readonly clock: () => Date
  readonly log: Logger
}

/**
 * What happens to a notice: it is `sent` by SMTP, written to a `file` because no mail server is configured,
 * `dropped` because the recipient's domain is reserved, or `waiting` for the end of a rehearsal.
 */
export type NoticeRoute = 'sent' | 'file' | 'dropped' | 'waiting'

export interface MailServices {
  readonly mailer: Mailer
  readonly unsubscribeLinks: UnsubscribeLinks
  readonly inboundSecrets: readonly string[] | undefined
  readonly mailedCodes: MailedCodes
  /** Equal to `mailedCodes`; undefined if invitations are not mailed. Admins must then pass on the links. */
  readonly invitationCodes: MailedCodes | undefined
  noticeRouteOf(address: string): NoticeRoute
  /** Returns why the last mail was not accepted; undefined if the outcome was not `abandoned`. */
  lastError(): string | undefined
  /** Starts sending notices, unless this is a rehearsal. */
  start(): void
  /** Stops sending notices. Abandons hand-overs that have not started, and waits some seconds for the others. */
  close(): Promise<void>
}

export function createMailServices(options: MailServicesOptions): MailServices {
  const {
    server,
    baseUrl,
    unsubscribeLinkKeys,
    mailedCodeKeys,
    inboundSecrets,
    isRehearsal = false,
  } = options
  let lastError: string | undefined
  const mailer = createMailer({
    ...options,
    wantsSuccessReports: inboundSecrets !== undefined,
    onHandOver(result) {
      lastError = result.outcome === 'abandoned' ? maskAddresses(result.detail) : undefined
      options.onHandOver?.(result)
    },
  })
  const mailedCodes = createMailedCodes(mailedCodeKeys)
  let outbox: Worker | undefined
  return {
    mailer,
    unsubscribeLinks: createUnsubscribeLinks(baseUrl, unsubscribeLinkKeys),
    inboundSecrets,
    invitationCodes: server === undefined || isRehearsal ? undefined : mailedCodes,
    mailedCodes,
    noticeRouteOf(address) {
      if (isRehearsal) return 'waiting'
      if (isReservedAddress(address)) return 'dropped'
      return server === undefined ? 'file' : 'sent'
    },
    lastError: () => lastError,
    start() {
      if (!isRehearsal) outbox = startOutbox({ ...options, mailer, mailedCodes })
    },
    async close() {
      await Promise.all([outbox?.stop(), mailer.close()])
    },
  }
}
