/** Mail as a part of the backend: what others send with, and what the routes need. */
import type { Logger } from '../../shared/log.ts'
import type { NamedAddress } from './addresses.ts'
import type { Mailer } from './mail.ts'
import { createMailer } from './mailer.ts'
import type { SmtpAddress } from './smtp-url.ts'
import { createUnsubscribeLinks, type UnsubscribeLinks } from './unsubscribe-links.ts'

export interface PostOfficeOptions {
  /** Undefined: mail is written to files. */
  readonly server: SmtpAddress | undefined
  readonly mailFrom: NamedAddress
  readonly directory: string
  /** What mail that comes in is posted with; undefined: none is taken. */
  readonly inboundSecrets: readonly string[] | undefined
  readonly baseUrl: string
  /** Of 32 bytes each; the first seals links. */
  readonly linkKeys: readonly Buffer[]
  readonly clock: () => Date
  readonly log: Logger
}

/** For whoever sends, and for the routes. */
export interface PostOffice {
  readonly mailer: Mailer
  readonly links: UnsubscribeLinks
  readonly inboundSecrets: readonly string[] | undefined
  close(): Promise<void>
}

export function createPostOffice(options: PostOfficeOptions): PostOffice {
  const { baseUrl, linkKeys, inboundSecrets } = options
  const mailer = createMailer({ ...options, wantsReports: inboundSecrets !== undefined })
  return {
    mailer,
    links: createUnsubscribeLinks(baseUrl, linkKeys),
    inboundSecrets,
    close: mailer.close,
  }
}
