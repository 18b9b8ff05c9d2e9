/** Hands mail over: by SMTP where there is a server, else into files. */
import type { Logger } from '../../shared/log.ts'
import type { Mailer } from './mail.ts'

export interface MailerOptions {
  /** As `SMTP_URL` has it; undefined: mail is written to files. */
  readonly smtpUrl: string | undefined
  /** An address, or `Name <address>`. */
  readonly mailFrom: string
  /** Where files go. */
  readonly directory: string
  readonly log: Logger
}

export function createMailer({ mailFrom }: MailerOptions): Mailer {
  const host = mailFrom.slice(mailFrom.lastIndexOf('@') + 1).replace(/>$/, '')
  return {
    messageIdOf: (id) => `<${id}@${host}>`,
    send: async () => ({ outcome: 'abandoned', detail: 'mail is not sent yet' }),
    close: async () => {},
  }
}
