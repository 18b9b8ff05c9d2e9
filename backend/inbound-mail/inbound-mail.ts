/**
 * What a mail that came in is: a report that ours came back, is late or arrived (RFC 3464), a
 * complaint (RFC 5965), an answer of a person or of a machine. Anybody can send anything there, so
 * nothing here throws for what it reads, and all that is read is bounded.
 */
import PostalMime, { type Email } from 'postal-mime'
import { bounceTypeOf, oneLine, parseReply } from '../mail/status-codes.ts'
import type { Bounce } from '../reminders/sending/bounces.ts'

export interface InboundMail {
  readonly content:
    | { readonly kind: 'bounce'; readonly bounce: Bounce }
    | { readonly kind: 'reply'; readonly subject: string; readonly text: string }
    | { readonly kind: 'delay' | 'delivery' | 'complaint' | 'auto_reply' | 'unknown' }
  /** Ids of messages and notices of ours, Message-IDs in `<>`: what it is about, by its own account. */
  readonly references: readonly string[]
  /** As it claims. */
  readonly sender: string | null
}

const REPORT_CHARS_MAX = 20_000
const SUBJECT_CHARS_MAX = 300
const TEXT_CHARS_MAX = 20_000
/** Of HTML less is read: taking its markup out is slow where it is made to be. */
const HTML_CHARS_MAX = 10_000
const REFERENCES_MAX = 50

export async function readInboundMail(raw: Buffer): Promise<InboundMail> {
  const mail = await parse(raw)
  if (mail === undefined) return { content: { kind: 'unknown' }, references: [], sender: null }
  const sender = mail.from?.address === undefined ? null : oneLine(mail.from.address)
  const content = contentOf(mail)
  const isReport = content.kind !== 'reply' && content.kind !== 'auto_reply'
  const thread = `${mail.inReplyTo ?? ''} ${mail.references ?? ''}`
  const references = referencesIn(isReport ? `${reportedIds(mail)} ${thread}` : thread)
  return { content, references, sender }
}

/** Undefined where it is deeper or longer than any real mail. */
async function parse(raw: Buffer): Promise<Email | undefined> {
  try {
    return await PostalMime.parse(raw, {
      // What is returned with a report must not be taken for its own text.
      forceRfc822Attachments: true,
      attachmentEncoding: 'utf8',
      maxNestingDepth: 20,
      maxHeadersSize: 100_000,
    })
  } catch {
    return undefined
  }
}

function contentOf(mail: Email): InboundMail['content'] {
  const status = partOf(mail, 'message/delivery-status')
  if (status !== undefined) return readDeliveryStatus(status)
  const feedback = partOf(mail, 'message/feedback-report')
  if (feedback !== undefined) {
    const isComplaint = fieldsIn(feedback).get('feedback-type') !== 'not-spam'
    return { kind: isComplaint ? 'complaint' : 'unknown' }
  }
  if (isAutomatic(mail)) return { kind: 'auto_reply' }
  const subject = oneLine(mail.subject ?? '').slice(0, SUBJECT_CHARS_MAX)
  return { kind: 'reply', subject, text: textOf(mail) }
}

function readDeliveryStatus(report: string): InboundMail['content'] {
  const fields = fieldsIn(report)
  switch (fields.get('action')) {
    case 'failed':
      return { kind: 'bounce', bounce: bounceOf(fields) }
    case 'delayed':
      return { kind: 'delay' }
    case 'delivered':
    // It reached the address, which stands for others.
    case 'expanded':
      return { kind: 'delivery' }
    default:
      // Handed on to where nobody reports.
      return { kind: 'unknown' }
  }
}

function bounceOf(fields: ReadonlyMap<string, string>): Bounce {
  const diagnostic = (fields.get('diagnostic-code') ?? '').replace(/^[\w-]+;\s*/, '')
  const status = /^[245]\.\d{1,3}\.\d{1,3}/.exec(fields.get('status') ?? '')?.[0]
  // Where a relay says no more than that it failed, the far server may have said why.
  const said = parseReply(diagnostic)
  const isVague = status === undefined || /^[45]\.0\.0$/.test(status)
  const code = (isVague ? said?.enhanced : status) ?? status ?? '5.0.0'
  return { type: bounceTypeOf(code), code, detail: oneLine(diagnostic || `status ${code}`) }
}

/** RFC 3834, and what those say who do not keep to it. */
function isAutomatic({ headers, returnPath }: Email): boolean {
  const header = (name: string) =>
    headers.find(({ key }) => key === name)?.value.toLowerCase() ?? ''
  return (
    !/^(?:no)?$/.test(header('auto-submitted').trim()) ||
    /^(?:bulk|junk|list|auto_reply)$/.test(header('precedence').trim()) ||
    header('x-autoreply') !== '' ||
    header('x-autorespond') !== '' ||
    returnPath === ''
  )
}

/** PostgreSQL keeps no NUL. */
function textOf({ text, html }: Email): string {
  return plainText(text, html).replaceAll('\0', '')
}

function plainText(text: string | undefined, html = ''): string {
  if (text !== undefined && text.trim() !== '') return text.trim().slice(0, TEXT_CHARS_MAX)
  return html
    .slice(0, HTML_CHARS_MAX)
    .replace(/<(style|script)\b[^>]*>.*?<\/\1\s*>/gis, ' ')
    .replace(/<(?:br|\/p|\/div)\b[^<>]*>/gi, '\n')
    .replace(/<[^<>]*>/g, '')
    .trim()
}

/** By the report's envelope id, and by the headers that came back with it. */
function reportedIds(mail: Email): string {
  const status = partOf(mail, 'message/delivery-status') ?? ''
  const returned = partOf(mail, 'message/rfc822') ?? partOf(mail, 'text/rfc822-headers') ?? ''
  const [head = ''] = returned.split(/\r?\n\r?\n/)
  const headers = fieldsIn(head)
  return [
    fieldsIn(status).get('original-envelope-id') ?? '',
    headers.get('x-receivables-id') ?? '',
    headers.get('message-id') ?? '',
  ].join(' ')
}

function referencesIn(text: string): string[] {
  const ids = text.match(/(?:msg|mlo)_[0-9A-HJKMNP-TV-Z]{26}|<[^<>\s]{1,250}>/g) ?? []
  const inside = ids.flatMap((id) => [id, ...(/(?:msg|mlo)_[0-9A-HJKMNP-TV-Z]{26}/.exec(id) ?? [])])
  return [...new Set(inside)].slice(0, REFERENCES_MAX)
}

function partOf({ attachments }: Email, type: string): string | undefined {
  const content = attachments.find(({ mimeType }) => mimeType === type)?.content
  return typeof content === 'string' ? content.slice(0, REPORT_CHARS_MAX) : undefined
}

/** Of all its groups: each of our mails has one recipient. The first of a name counts. */
function fieldsIn(report: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>()
  for (const line of report.replace(/\r?\n[ \t]+/g, ' ').split(/\r?\n/)) {
    const [, name = '', value = ''] = /^([\w-]{1,60}):(.*)$/.exec(line) ?? []
    const key = name.toLowerCase()
    const isWord = key === 'action' || key === 'feedback-type'
    if (key !== '' && !fields.has(key)) {
      fields.set(key, isWord ? value.trim().toLowerCase() : value.trim())
    }
  }
  return fields
}
