/**
 * Classifies an inbound mail: a delivery report (RFC 3464: bounced, delayed or delivered), a complaint (RFC
 * 5965), a reply by a person, or an automatic reply. Anyone can send anything to `MAIL_FROM`, so nothing here
 * throws, and everything is read only up to a limit.
 */
import PostalMime, { type Email } from 'postal-mime'
import { bounceTypeOf, bounceTypeOfReply, parseReply, toShortLine } from '../mail/status-codes.ts'
import type { Bounce } from '../reminders/sending/bounces.ts'
import { parseEmail } from '../validation/contact.ts'
import { truncate } from '../validation/truncate.ts'
import { textOfHtml } from './html-text.ts'

export interface InboundMail {
  readonly content:
    | { readonly kind: 'bounce'; readonly failures: readonly Failure[] }
    | { readonly kind: 'reply'; readonly subject: string; readonly text: string }
    | { readonly kind: 'delay' | 'delivery' | 'complaint' | 'auto_reply' }
    /** `isRelayed`: a mail server passed our mail on to another one, which sends no reports. */
    | { readonly kind: 'unknown'; readonly isRelayed?: true }
  /** The ids of our mails (see `OUR_ID`), and the Message-IDs in `<>`, to which the mail refers. */
  readonly references: readonly string[]
  /** The sender that the mail states, unverified. */
  readonly sender: string | null
}

/** A failed delivery to one recipient. */
export interface Failure {
  readonly bounce: Bounce
  /**
   * The address to which the delivery failed. If our mail was forwarded, e.g. by a mailing list, this is not the
   * address to which we sent it. Undefined if the report contains no e-mail address.
   */
  readonly address: string | undefined
}

/**
 * How many lines of a mail are read. The parser blocks the process for 0.2 s to read 20,000 lines. Gateways forward
 * only the first 256 KiB of a mail, usually fewer than 5,000 lines.
 */
const LINES_MAX = 5_000
const REPORT_CHARS_MAX = 20_000
const TEXT_CHARS_MAX = 20_000
const REFERENCES_MAX = 50

export async function readInboundMail(raw: Buffer): Promise<InboundMail> {
  const mail = await parse(raw)
  if (mail === undefined) return { content: { kind: 'unknown' }, references: [], sender: null }
  const sender = mail.from?.address === undefined ? null : toShortLine(mail.from.address)
  const content = contentOf(mail)
  const isReport = content.kind !== 'reply' && content.kind !== 'auto_reply'
  const thread = `${mail.inReplyTo ?? ''} ${mail.references ?? ''}`
  const references = referencesIn(isReport ? `${reportedIds(mail)} ${thread}` : thread)
  return { content, references, sender }
}

/** Resolves to undefined if the parts of the mail are nested too deeply, or its headers are too long. */
async function parse(raw: Buffer): Promise<Email | undefined> {
  try {
    return await new MailParser({
      // Without this option, the original mail that a report returns would be read as the text of the report.
      forceRfc822Attachments: true,
      attachmentEncoding: 'utf8',
      maxNestingDepth: 20,
      maxHeadersSize: 100_000,
    }).parse(firstLines(raw))
  } catch {
    return undefined
  }
}

/** One text of a mail, in plain text, in HTML or in both. */
type TextVersions = Partial<Record<'plain' | 'html', readonly { readonly value: string }[]>>

/**
 * Converts HTML with `textOfHtml` instead of the function of postal-mime, which takes cubic time for some markup: a
 * link of 100,000 characters that is not closed would block the process for minutes. The types of the package omit the
 * members used here; tests fail if an update renames them.
 */
class MailParser extends PostalMime {
  declare readonly textMap: ReadonlyMap<unknown, TextVersions>
  /** The `text` of the parsed mail. */
  declare readonly textContent: { plain?: string }

  renderTextContent(): void {
    const texts = [...this.textMap.values()].map(({ plain = [], html = [] }) => {
      const plainText = plain.map(({ value }) => value).join('\n')
      // Some mail programs send an empty plain text with the HTML.
      return plainText.trim() === ''
        ? html.map(({ value }) => textOfHtml(value)).join('\n')
        : plainText
    })
    this.textContent.plain = texts.join('\n')
  }
}

function firstLines(raw: Buffer): Buffer {
  let end = 0
  for (let lines = 0; lines < LINES_MAX; lines++) {
    const lineFeed = raw.indexOf('\n', end)
    if (lineFeed === -1) return raw
    end = lineFeed + 1
  }
  return raw.subarray(0, end)
}

/** A person can attach a report to a mail, so only an automatic mail counts as a report. */
function contentOf(mail: Email): InboundMail['content'] {
  if (!isAutomatic(mail)) {
    return { kind: 'reply', subject: toShortLine(mail.subject ?? ''), text: textOf(mail) }
  }
  const status = partOf(mail, ...DELIVERY_STATUS)
  if (status !== undefined) return readDeliveryStatus(status, mail.text ?? '')
  const feedback = partOf(mail, 'message/feedback-report')
  if (feedback !== undefined) {
    return { kind: isComplaint(fieldsIn(feedback)) ? 'complaint' : 'unknown' }
  }
  return { kind: 'auto_reply' }
}

/**
 * A report that a mail is not spam, or that a DKIM or DMARC check failed (RFC 6591), has the same form as a complaint.
 */
function isComplaint(fields: ReadonlyMap<string, string>): boolean {
  const type = fields.get('feedback-type')
  return type !== 'not-spam' && type !== 'auth-failure'
}

/** `report` is the machine-readable part of the mail, and `notification` is the text for people. */
function readDeliveryStatus(report: string, notification: string): InboundMail['content'] {
  const recipients = recipientsIn(report)
  const failed = recipients.filter((fields) => fields.get('action') === 'failed')
  if (failed.length > 0) {
    return { kind: 'bounce', failures: failed.map((fields) => failureOf(fields, notification)) }
  }
  switch (recipients[0]?.get('action')) {
    case 'delayed':
      return { kind: 'delay' }
    case 'delivered':
    // The mail reached an address that forwards it to several others.
    case 'expanded':
      return { kind: 'delivery' }
    case 'relayed':
      return { kind: 'unknown', isRelayed: true }
    default:
      return { kind: 'unknown' }
  }
}

/**
 * Returns the fields about each recipient: a report about a forwarded mail can contain several groups of fields. If
 * fewer than two groups have an action, all fields are about one recipient, even if empty lines separate them.
 */
function recipientsIn(report: string): ReadonlyMap<string, string>[] {
  const groups = report
    .split(/\r?\n[ \t]*\r?\n/)
    .map(fieldsIn)
    .filter((fields) => fields.has('action'))
  return groups.length > 1 ? groups : [fieldsIn(report)]
}

function failureOf(fields: ReadonlyMap<string, string>, notification: string): Failure {
  const [address] = ['final-recipient', 'original-recipient'].flatMap(
    (name) => parseEmail(withoutType(fields.get(name)).replace(/^<(.*)>$/, '$1')) ?? [],
  )
  return { bounce: bounceOf(fields, notification), address }
}

function bounceOf(fields: ReadonlyMap<string, string>, notification: string): Bounce {
  const diagnostic =
    withoutType(fields.get('diagnostic-code')) || diagnosticIn(notification, fields)
  const status = /^[245]\.\d{1,3}\.\d{1,3}/.exec(fields.get('status') ?? '')?.[0]
  // If the status says only that the delivery failed, the recipient's server may have given the reason in its reply.
  const remoteReply = isVague(status) ? parseReply(diagnostic) : undefined
  const code = remoteReply?.enhanced ?? status ?? '5.0.0'
  const detail = toShortLine(diagnostic || `status ${code}`)
  if (remoteReply === undefined || !isVague(code)) return { type: bounceTypeOf(code), code, detail }
  // If the server rejected the content of our mail and gave no reason, the address may still be valid.
  const type = REJECTED_CONTENT.test(notification) ? 'soft' : bounceTypeOfReply(remoteReply)
  return { type, code, detail }
}

/** How Postfix and Exim say that the remote server rejected the content of the mail and not the recipient. */
const REJECTED_CONTENT = /\b(?:reply to|end of) (?:end of )?data\b/i

/** OpenSMTPD writes no `Diagnostic-Code`, but `ap@jansen.nl: 552 Mailbox full` into the notification. */
function diagnosticIn(notification: string, fields: ReadonlyMap<string, string>): string {
  const start = `${withoutType(fields.get('final-recipient'))}: `
  const line = notification.split('\n').find((each) => each.startsWith(start))
  return line?.slice(start.length) ?? ''
}

/** Returns `550 …` for `smtp; 550 …`. */
function withoutType(value = ''): string {
  return value.replace(/^[\w-]+;\s*/, '')
}

/** Whether the enhanced code gives no reason. */
function isVague(code: string | undefined): boolean {
  return code === undefined || /^[45]\.0\.0$/.test(code)
}

const AUTO_REPLY_HEADER = /^x-(?:mail-)?auto(?:reply|respond(?:er)?)(?:-from)?$/

/**
 * Recognizes automatic replies by the header of RFC 3834, by the headers of programs that do not follow this RFC, and
 * by the empty return path. Reports of any type, such as read receipts (RFC 8098), are also automatic, and so is every
 * mail from `MAILER-DAEMON`.
 */
function isAutomatic({ headers, from }: Email): boolean {
  const header = (name: string) =>
    headers
      .find(({ key }) => key === name)
      ?.value.trim()
      .toLowerCase() ?? ''
  return (
    !/^(?:no\b.*)?$/.test(header('auto-submitted')) ||
    ['precedence', 'x-precedence'].some((name) =>
      /^(?:bulk|junk|list|auto_reply)$/.test(header(name)),
    ) ||
    headers.some(({ key, value }) => AUTO_REPLY_HEADER.test(key) && value.trim() !== '') ||
    header('content-type').startsWith('multipart/report') ||
    header('return-path') === '<>' ||
    /^mailer-daemon@/i.test(from?.address ?? '')
  )
}

/** Replaces the text of a reply that has none. */
const NO_TEXT =
  '[This reply has no text that can be shown. It may be encrypted, or consist of attachments only.]'

/** Returns the text without NUL characters, which PostgreSQL cannot store. */
function textOf({ text = '' }: Email): string {
  return truncate(text.trim(), TEXT_CHARS_MAX).replaceAll('\0', '') || NO_TEXT
}

function reportedIds(mail: Email): string {
  const status = partOf(mail, ...DELIVERY_STATUS) ?? ''
  const returned = partOf(mail, ...RETURNED_MAIL) ?? ''
  const [head = ''] = returned.split(/\r?\n\r?\n/)
  const headers = fieldsIn(head)
  return [
    fieldsIn(status).get('original-envelope-id') ?? '',
    headers.get('x-receivables-id') ?? '',
    headers.get('message-id') ?? '',
  ].join(' ')
}

/** The id of a message (`msg_`), or of a mail with a notice (`mlo_`). */
const OUR_ID = /(?:msg|mlo)_[0-9A-HJKMNP-TV-Z]{26}/
const REFERENCE = new RegExp(`${OUR_ID.source}|<[^<>\\s\\p{Cc}]{1,250}>`, 'gu')

/** Ignores ids with control characters: no Message-ID has any, and PostgreSQL rejects a statement with a NUL. */
function referencesIn(text: string): string[] {
  const ids = text.match(REFERENCE) ?? []
  // Our Message-IDs contain the id of the mail (see `OUR_ID`).
  const withInnerIds = ids.flatMap((id) => [id, ...(OUR_ID.exec(id) ?? [])])
  return [...new Set(withInnerIds)].slice(0, REFERENCES_MAX)
}

/** The media types of a delivery report's parts (RFC 3464; RFC 6533 if the mail had addresses beyond ASCII). */
const DELIVERY_STATUS = ['message/delivery-status', 'message/global-delivery-status']
const RETURNED_MAIL = [
  'message/rfc822',
  'text/rfc822-headers',
  'message/global',
  'message/global-headers',
]

/** Returns the text of the first part that has one of the types. */
function partOf({ attachments }: Email, ...types: readonly string[]): string | undefined {
  const content = attachments.find(({ mimeType }) => types.includes(mimeType))?.content
  return typeof content === 'string' ? content.slice(0, REPORT_CHARS_MAX) : undefined
}

/** Returns the fields by lower-case name. If a name occurs several times, the first field applies. */
function fieldsIn(report: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>()
  for (const line of report.replace(/\r?\n[ \t]+/g, ' ').split(/\r?\n/)) {
    const [, name = '', value = ''] = /^([\w-]{1,60}):(.*)$/.exec(line) ?? []
    const key = name.toLowerCase()
    const isKeyword = key === 'action' || key === 'feedback-type'
    if (key !== '' && !fields.has(key)) {
      // A comment in parentheses can follow the keyword.
      fields.set(key, isKeyword ? value.replace(/\(.*/, '').trim().toLowerCase() : value.trim())
    }
  }
  return fields
}
