/** Mail as a part of the backend: what others send with, what the routes need, what runs beside. */
import type { Logger } from '../../shared/process/log.ts'
import type { Worker } from '../background/worker.ts'
import type { Database } from '../database/database.ts'
import { createInvitationCodes, type InvitationCodes } from '../users/invitation-codes.ts'
import { type NamedAddress, withoutAddresses } from './addresses.ts'
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
  /** What mail that comes in is posted with; undefined: none is taken. */
  readonly inboundSecrets: readonly string[] | undefined
  readonly baseUrl: string
  /** Of 32 bytes each; the first seals. */
  readonly linkKeys: readonly Buffer[]
  readonly codeKeys: readonly Buffer[]
  /** Nothing leaves by itself: notices wait, and people hand links on. */
  readonly isRehearsal?: boolean
  readonly onHandOff?: (handOff: HandOff) => void
  readonly clock: () => Date
  readonly log: Logger
}

/** For whoever sends, and for the routes. */
export interface PostOffice {
  readonly mailer: Mailer
  readonly links: UnsubscribeLinks
  readonly inboundSecrets: readonly string[] | undefined
  /** Undefined where none is mailed: then people hand links on. */
  readonly mailedInvitations: InvitationCodes | undefined
  /** Why the last mail did not leave, where that was no fault of its address. */
  fault(): string | undefined
  /** Begins to send notices. */
  start(): void
  /** Finishes or gives back what is under way. */
  close(): Promise<void>
}

export function createPostOffice(options: PostOfficeOptions): PostOffice {
  const { server, baseUrl, linkKeys, codeKeys, inboundSecrets, isRehearsal = false } = options
  let fault: string | undefined
  const mailer = createMailer({
    ...options,
    wantsReports: inboundSecrets !== undefined,
    onHandOff(handOff) {
      fault = handOff.outcome === 'abandoned' ? withoutAddresses(handOff.detail) : undefined
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
    fault: () => fault,
    start() {
      if (!isRehearsal) outbox = startOutbox({ ...options, mailer, codes })
    },
    async close() {
      await Promise.all([outbox?.stop(), mailer.close()])
    },
  }
}
