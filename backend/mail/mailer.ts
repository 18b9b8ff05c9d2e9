/**
 * Hands mail over: by SMTP where there is a server, else into files. Whoever calls has decided that
 * it may leave; the one thing refused here once more is what nobody can receive.
 */
import { setMaxListeners } from 'node:events'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import MailComposer from 'nodemailer/lib/mail-composer'
import type { Logger } from '../../shared/process/log.ts'
import {
  headerText,
  hostOf,
  isReservedAddress,
  type NamedAddress,
  withoutAddresses,
} from './addresses.ts'
import { HAND_OFF_MS_MAX, type HandOff, type Mail, type Mailer } from './mail.ts'
import { handOver } from './smtp.ts'
import type { SmtpAddress } from './smtp-url.ts'
import { oneLine } from './status-codes.ts'

export interface MailerOptions {
  /** Undefined: mail is written to files. */
  readonly server: SmtpAddress | undefined
  readonly mailFrom: NamedAddress
  /** Where files go; made when the first is written. */
  readonly directory: string
  /** Reports of delivery are asked for too: there is somewhere to send them. */
  readonly wantsReports: boolean
  /** `HAND_OFF_MS_MAX` unless given. */
  readonly answerMsMax?: number
  /** Told of each. */
  readonly onHandOff?: (handOff: HandOff) => void
  readonly clock: () => Date
  readonly log: Logger
}

export function createMailer(options: MailerOptions): Mailer {
  const { server, mailFrom, directory, clock, log } = options
  if (server === undefined) log.info({ directory }, 'SMTP_URL is not set: mail is written to files')
  const stopping = new AbortController()
  // One for each mail under way.
  setMaxListeners(0, stopping.signal)
  const under = new Set<Promise<HandOff>>()
  const messageIdOf = (id: string) => `<${id}@${hostOf(mailFrom.address)}>`

  async function attempt(mail: Mail, startBefore: Date): Promise<HandOff> {
    if (isReservedAddress(mail.to)) {
      const detail = `${hostOf(mail.to)} is reserved for documentation and tests`
      return { outcome: 'refused', type: 'hard', code: 'reserved_domain', detail }
    }
    const beginWithinMs = startBefore.getTime() - clock().getTime()
    if (beginWithinMs <= 0 || stopping.signal.aborted) {
      return { outcome: 'abandoned', detail: 'it had not begun in time' }
    }
    const raw = await compose(mail, mailFrom)
    if (server === undefined) return writeFileOf(mail, raw)
    const envelope = {
      from: mailFrom.address,
      to: [mail.to],
      size: raw.length,
      dsn: {
        id: idIn(mail.messageId),
        return: 'HDRS',
        notify: ['FAILURE', 'DELAY', ...(options.wantsReports ? ['SUCCESS'] : [])],
      },
    }
    const { signal } = stopping
    const answerMsMax = options.answerMsMax ?? HAND_OFF_MS_MAX
    return handOver(server, { envelope, raw, beginWithinMs, answerMsMax, signal })
  }

  async function writeFileOf({ messageId, subject }: Mail, raw: Buffer): Promise<HandOff> {
    const file = join(directory, `${idIn(messageId)}.eml`)
    await mkdir(directory, { recursive: true, mode: 0o700 })
    await writeFile(`${file}.part`, raw, { mode: 0o600 })
    await rename(`${file}.part`, file)
    log.info({ messageId, subject: headerText(subject), file }, 'mail written to a file')
    return { outcome: 'accepted', providerMessageId: null }
  }

  return {
    messageIdOf,
    async send(mail, { startBefore }) {
      const sending = attempt(mail, startBefore).catch((error: Error): HandOff => {
        return { outcome: 'abandoned', detail: oneLine(error.message) }
      })
      under.add(sending)
      const handOff = await sending
      under.delete(sending)
      logHandOff(log, mail, handOff)
      options.onHandOff?.(handOff)
      return handOff
    },
    async close() {
      stopping.abort()
      await Promise.all(under)
    },
  }
}

/** `msg_…` of `<msg_…@host>`. */
function idIn(messageId: string): string {
  return messageId.replace(/^<|@.*$/g, '')
}

function compose(mail: Mail, mailFrom: NamedAddress): Promise<Buffer> {
  const { replyTo, unsubscribeUrl } = mail
  const name = headerText(mail.fromName) || mailFrom.name
  const composed = new MailComposer({
    messageId: mail.messageId,
    from: { name, address: mailFrom.address },
    to: { name: '', address: mail.to },
    ...(replyTo !== undefined && {
      // Both: the creditor's people read it, and we learn of it.
      replyTo: [
        { name, address: replyTo },
        { name, address: mailFrom.address },
      ],
    }),
    subject: headerText(mail.subject),
    text: mail.text,
    html: mail.html,
    headers: {
      'Auto-Submitted': 'auto-generated',
      // Comes back with bounces, also where a server gives the mail a Message-ID of its own.
      'X-Receivables-Id': idIn(mail.messageId),
      ...(unsubscribeUrl !== undefined && {
        'List-Unsubscribe': { prepared: true, foldLines: false, value: `<${unsubscribeUrl}>` },
        'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
      }),
    },
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return composed.compile().build()
}

function logHandOff(log: Logger, { messageId }: Mail, handOff: HandOff): void {
  const { outcome, ...rest } = handOff
  const detail = 'detail' in rest ? withoutAddresses(rest.detail) : undefined
  const facts = { messageId, ...rest, ...(detail !== undefined && { detail }) }
  if (outcome === 'accepted') log.info(facts, 'mail handed over')
  else log.warn(facts, `mail ${outcome}`)
}
