/**
 * Hands mail over by SMTP, or writes it to files if no server is configured. The caller decides whether a mail
 * may be sent; the mailer itself rejects only addresses in reserved domains.
 */
import { setMaxListeners } from 'node:events'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import MailComposer from 'nodemailer/lib/mail-composer'
import { createPrivateDirectory } from '../../shared/process/directories.ts'
import type { Logger } from '../../shared/process/log.ts'
import type { Logo } from '../accounts/logo.ts'
import {
  hostOf,
  isReservedAddress,
  maskAddresses,
  type NamedAddress,
  toOneLine,
} from './addresses.ts'
import { HAND_OVER_MS_MAX, type HandOverResult, type Mail, type Mailer } from './mail.ts'
import { handOver, notStarted } from './smtp.ts'
import type { SmtpAddress } from './smtp-url.ts'
import { toShortLine } from './status-codes.ts'
import { LOGO_CID } from './wording/mail-body.ts'

export interface MailerOptions {
  readonly server: SmtpAddress | undefined
  readonly mailFrom: NamedAddress
  /** The directory for mail that is written to files. The first file creates it. */
  readonly directory: string
  /** Whether to request reports of successful delivery, which arrive as inbound mail. */
  readonly wantsSuccessReports: boolean
  /**
   * The maximum time from the `startBefore` of `send` to the server's final reply. The default is `HAND_OVER_MS_MAX`.
   */
  readonly replyMsMax?: number
  /** Called with the result of each `send`, even if nothing was handed over. */
  readonly onHandOver?: (result: HandOverResult) => void
  readonly clock: () => Date
  readonly log: Logger
}

export function createMailer(options: MailerOptions): Mailer {
  const { server, mailFrom, directory, clock, log } = options
  if (server === undefined) log.info({ directory }, 'SMTP_URL is not set: mail is written to files')
  const stopping = new AbortController()
  // Each hand-over in progress adds a listener. Without this call, Node.js would warn of a leak at the eleventh.
  setMaxListeners(0, stopping.signal)
  const inProgress = new Set<Promise<HandOverResult>>()
  const messageIdOf = (id: string) => `<${id}@${hostOf(mailFrom.address)}>`

  async function attempt(mail: Mail, startBefore: Date): Promise<HandOverResult> {
    if (isReservedAddress(mail.to)) {
      const detail = `${hostOf(mail.to)} is reserved for documentation and tests`
      return { outcome: 'refused', type: 'hard', code: 'reserved_domain', detail }
    }
    const startWithinMs = startBefore.getTime() - clock().getTime()
    if (startWithinMs <= 0 || stopping.signal.aborted) return notStarted(stopping.signal)
    const raw = await compose(mail, mailFrom)
    if (server === undefined) return writeMailFile(mail, raw)
    const envelope = {
      from: mailFrom.address,
      to: [mail.to],
      size: raw.length,
      dsn: {
        id: idFromMessageId(mail.messageId),
        return: 'HDRS',
        notify: ['FAILURE', 'DELAY', ...(options.wantsSuccessReports ? ['SUCCESS'] : [])],
      },
    }
    const { signal } = stopping
    const replyMsMax = options.replyMsMax ?? HAND_OVER_MS_MAX
    // In the greeting, some relays, such as Google's, require a domain name, which a container's host name is not.
    const clientName = hostOf(mailFrom.address)
    return handOver(server, { clientName, envelope, raw, startWithinMs, replyMsMax, signal })
  }

  async function writeMailFile({ messageId, subject }: Mail, raw: Buffer): Promise<HandOverResult> {
    const file = join(directory, `${idFromMessageId(messageId)}.eml`)
    createPrivateDirectory(directory)
    await writeFile(`${file}.part`, raw, { mode: 0o600 })
    await rename(`${file}.part`, file)
    log.info({ messageId, subject: toOneLine(subject), file }, 'mail written to a file')
    return { outcome: 'accepted', providerMessageId: null }
  }

  return {
    messageIdOf,
    async send(mail, { startBefore }) {
      // An error means that nothing was sent, because `handOver` reports failures as results.
      const sending = attempt(mail, startBefore).catch((error: Error): HandOverResult => {
        return { outcome: 'abandoned', detail: toShortLine(error.message) }
      })
      inProgress.add(sending)
      const result = await sending
      inProgress.delete(sending)
      logHandOverResult(log, mail, result)
      options.onHandOver?.(result)
      return result
    },
    async close() {
      stopping.abort()
      await Promise.all(inProgress)
    },
  }
}

/** Returns `msg_…` for `<msg_…@host>`. */
function idFromMessageId(messageId: string): string {
  return messageId.replace(/^<|@.*$/g, '')
}

function compose(mail: Mail, mailFrom: NamedAddress): Promise<Buffer> {
  const { replyTo, unsubscribeUrl } = mail
  const name = withoutEncodedWords(toOneLine(mail.fromName)) || mailFrom.name
  const composed = new MailComposer({
    messageId: mail.messageId,
    from: { name, address: mailFrom.address },
    to: { name: '', address: mail.to },
    ...(replyTo !== undefined && {
      // With both addresses, the creditor's staff and this service both receive replies.
      replyTo: [
        { name, address: replyTo },
        { name, address: mailFrom.address },
      ],
    }),
    subject: withoutEncodedWords(toOneLine(mail.subject)),
    text: mail.text,
    html: mail.html,
    ...(mail.logo !== undefined && { attachments: [inlineLogo(mail.logo)] }),
    headers: {
      'Auto-Submitted': 'auto-generated',
      // Bounces contain this header even if a server has replaced the Message-ID.
      'X-Receivables-Id': idFromMessageId(mail.messageId),
      ...(unsubscribeUrl !== undefined && {
        // With these options, nodemailer writes the URL unchanged and on one line.
        'List-Unsubscribe': { prepared: true, foldLines: false, value: `<${unsubscribeUrl}>` },
        'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
      }),
    },
    disableFileAccess: true,
    disableUrlAccess: true,
    // Without this option, only the headers would have the line endings of mail (RFC 5322).
    newline: 'windows',
  })
  return composed.compile().build()
}

/**
 * Breaks up text that looks like encoded words (RFC 2047). In ASCII names and subjects, nodemailer sends such text
 * unchanged, and mail programs would decode it. An encoded name could therefore evade the check in
 * `accounts/sender.ts`, which rejects names that look like addresses.
 */
function withoutEncodedWords(text: string): string {
  return text.replaceAll('=?', '= ?')
}

function inlineLogo({ mediaType, content }: Logo) {
  return {
    cid: LOGO_CID,
    filename: mediaType === 'image/png' ? 'logo.png' : 'logo.jpg',
    contentType: mediaType,
    contentDisposition: 'inline',
    content,
  } as const
}

function logHandOverResult(log: Logger, { messageId }: Mail, result: HandOverResult): void {
  const { outcome, ...rest } = result
  const detail = 'detail' in rest ? maskAddresses(rest.detail) : undefined
  const facts = { messageId, ...rest, ...(detail !== undefined && { detail }) }
  if (outcome === 'accepted') log.info(facts, 'mail handed over')
  else log.warn(facts, `mail ${outcome}`)
}
