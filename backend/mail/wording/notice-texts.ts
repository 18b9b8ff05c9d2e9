import { parseTimezone } from '../../calendar/calendar.ts'
import type { AccountRow, NoticeRow, Reader } from '../../database/tables.ts'
import type { MailedCodes } from '../../users/mailed-codes.ts'
import { withFullStop } from '../../validation/full-stop.ts'
import { truncate } from '../../validation/truncate.ts'
import { OPTIONAL_NOTICES, SECURITY_NOTICES } from '../notice-choices.ts'
import { type Notice, type NoticeDetails, type NoticeKind, readNotice } from '../notices.ts'
import type { MailBody } from './mail-body.ts'
import { composeReminder } from './reminder-text.ts'
import { createSampleReminder } from './sample-reminder.ts'
import { trimLines } from './wording.ts'

export interface NoticeTextDeps {
  readonly baseUrl: string
  readonly mailedCodes: MailedCodes
}

interface NoticeContext extends NoticeTextDeps {
  /** Returns e.g. `21 November 2026 at 11:15 (Europe/Amsterdam)`. */
  dateTimeText(instant: string): string
}

/** A notice quotes at most this many UTF-16 code units of a customer's reply. */
const QUOTE_UNITS_MAX = 1500

/**
 * Returns undefined if the notice is obsolete. Throws an error if this version does not know the kind of the notice.
 */
export async function composeNotice(
  reader: Reader,
  deps: NoticeTextDeps,
  notice: NoticeRow,
): Promise<MailBody | undefined> {
  const account = await reader
    .selectFrom('accounts')
    .selectAll()
    .where('id', '=', notice.account_id)
    .executeTakeFirst()
  if (account === undefined) return undefined
  const parsed = readNotice(notice)
  if (parsed.kind === 'user.test_reminder') {
    const at = new Date(notice.created_at)
    return testReminder(reader, deps, account, parsed.detail, at)
  }
  // If this version of Node.js does not know the account's time zone, times are in UTC.
  const context = {
    ...deps,
    dateTimeText: dateTimeTextIn(parseTimezone(account.timezone) ?? 'UTC'),
  }
  const text = await textOf(reader, context, notice, parsed, account.name)
  if (text === undefined) return undefined
  return {
    language: 'en',
    sender: 'Receivables',
    greeting: 'Hello,',
    signOff: ['Kind regards,', 'Receivables'],
    footer: [
      withFullStop(`About the account ${account.name}`),
      ...choiceFooter(parsed.kind, deps.baseUrl),
    ],
    ...text,
  }
}

function choiceFooter(kind: NoticeKind, baseUrl: string): string[] {
  const page = `${baseUrl}/settings/notices`
  if (OPTIONAL_NOTICES.some((optional) => optional === kind)) {
    return [`Choose which of these mails you receive: ${page}`]
  }
  if (SECURITY_NOTICES.some((security) => security === kind)) {
    return [
      `For security, Admins cannot turn off this mail. Choose which other mails you receive: ${page}`,
    ]
  }
  return []
}

/** Returns undefined if the chosen invoice no longer exists. */
async function testReminder(
  reader: Reader,
  { baseUrl }: NoticeTextDeps,
  account: AccountRow,
  { stage, language, wording, invoice_id: invoiceId }: NoticeDetails['user.test_reminder'],
  at: Date,
): Promise<MailBody | undefined> {
  const sampleOptions = { stage, language, wording, invoiceId }
  const sample = await createSampleReminder(reader, account, sampleOptions, baseUrl, at)
  if (sample === undefined) return undefined
  const body = composeReminder(sample.content)
  return { ...body, subject: `[Test] ${body.subject ?? body.title}` }
}

type NoticeText = Pick<MailBody, 'tone' | 'title' | 'opening' | 'action' | 'closing'>

async function textOf(
  reader: Reader,
  context: NoticeContext,
  row: NoticeRow,
  notice: Exclude<Notice, { readonly kind: 'user.test_reminder' }>,
  accountName: string,
): Promise<NoticeText | undefined> {
  switch (notice.kind) {
    case 'user.invited':
      return invitation(reader, context, row.subject_id, { ...notice.detail, accountName })
    case 'webhook_endpoint.disabled':
      return disabledEndpoint(context, row, notice.detail)
    case 'user.password_reset':
      return passwordReset(reader, context, row.subject_id)
    case 'user.password_changed':
      return changedPassword(notice.detail)
    case 'api_key.expiring':
      return expiringKey(reader, context, row.subject_id)
    case 'api_key.issued':
      return issuedKey(context, row.subject_id, notice.detail)
    case 'payment_details.changed':
      return changedPaymentDetails(context, row, notice.detail)
    case 'second_factor.removed':
      return twoFactorTurnedOff(context, row, notice.detail)
    case 'user.second_factor_added':
      return factorAddedToYourLogin(context, row, notice.detail)
    case 'user.second_factor_removed':
      return factorRemovedFromYourLogin(context, row, notice.detail)
    case 'user.unknown_browser':
      return unknownBrowser(context, row, notice.detail)
    case 'user.wrong_codes':
      return wrongCodes(context, row, notice.detail)
    case 'message.received':
      return customerReply(reader, context, row)
    default:
      // During an upgrade, a backend of the next version may have recorded the notice.
      throw new Error(`this version knows no notice of the kind ${row.kind}`)
  }
}

function changedPassword({
  email,
  in_settings,
}: NoticeDetails['user.password_changed']): NoticeText {
  return {
    tone: 'plain',
    title: 'Your password was changed',
    opening: [
      in_settings
        ? `The password of ${email} was changed in Settings, by a person who entered the old password. All other sessions were ended.`
        : `The password of ${email} was changed with a link that was sent to this address. All sessions were ended.`,
    ],
    closing: [
      'If this was not you, request a new password immediately and tell an Admin of your account.',
    ],
  }
}

async function invitation(
  reader: Reader,
  { baseUrl, mailedCodes, dateTimeText }: NoticeContext,
  id: string,
  { role, invited_by, accountName }: NoticeDetails['user.invited'] & { accountName: string },
): Promise<NoticeText | undefined> {
  const link = await findLink(reader, 'invitations', id, mailedCodes)
  if (link === undefined) return undefined
  return {
    tone: 'plain',
    title: `You are invited to ${accountName}`,
    opening: [
      `${invited_by} invites you to the account ${accountName} on Receivables, as ${role === 'admin' ? 'an Admin' : 'a Member'}.`,
    ],
    action: { label: 'Choose a password', url: `${baseUrl}/settings/invitation#${link.code}` },
    closing: [
      `The link works once, until ${dateTimeText(link.expiresAt)}. Anyone who opens it can log in as you, so do not pass it on.`,
    ],
  }
}

async function passwordReset(
  reader: Reader,
  { baseUrl, mailedCodes, dateTimeText }: NoticeContext,
  id: string,
): Promise<NoticeText | undefined> {
  const link = await findLink(reader, 'password_resets', id, mailedCodes)
  if (link === undefined) return undefined
  return {
    tone: 'plain',
    title: 'Set a new password',
    opening: [
      'Someone, probably you, requested a new password for your login to Receivables.',
      'If it was not you, ignore this e-mail. Your password does not change.',
    ],
    action: { label: 'Set a new password', url: `${baseUrl}/settings/new-password#${link.code}` },
    closing: [`The link works once, until ${dateTimeText(link.expiresAt)}. Do not pass it on.`],
  }
}

/**
 * Returns undefined if the link was used or withdrawn, or if the secret from which the code in the link was derived is
 * no longer configured.
 */
async function findLink(
  reader: Reader,
  table: 'invitations' | 'password_resets',
  id: string,
  mailedCodes: MailedCodes,
): Promise<{ readonly code: string; readonly expiresAt: string } | undefined> {
  const row = await reader
    .selectFrom(table)
    .select(['id', 'code_hash', 'expires_at'])
    .where('id', '=', id)
    .where('ended_at', 'is', null)
    .executeTakeFirst()
  const code = row && mailedCodes.findCode(row.id, row.code_hash)
  return row === undefined || code === undefined ? undefined : { code, expiresAt: row.expires_at }
}

function disabledEndpoint(
  { baseUrl, dateTimeText }: NoticeContext,
  { subject_id: id, created_at }: NoticeRow,
  { url, reason, failing_since }: NoticeDetails['webhook_endpoint.disabled'],
): NoticeText {
  const cause =
    reason === 'gone'
      ? 'The endpoint responded with 410 Gone, which means that it wants no more events.'
      : `Every delivery to the endpoint has failed since ${dateTimeText(failing_since ?? created_at)}.`
  return {
    tone: 'firm',
    title: 'A webhook endpoint is disabled',
    opening: [`Events are no longer sent to ${url}.`, cause],
    action: {
      label: 'View the endpoint',
      url: `${baseUrl}/settings/webhook-endpoints/${id}`,
    },
    closing: [
      'When the endpoint works again, resume it on that page. There you can also redeliver the events that failed.',
    ],
  }
}

/** Reads the key, because it may have been revoked after the notice was recorded, or its expiry may have changed. */
async function expiringKey(
  reader: Reader,
  { baseUrl, dateTimeText }: NoticeContext,
  id: string,
): Promise<NoticeText | undefined> {
  const key = await reader
    .selectFrom('api_keys')
    .select(['name', 'prefix', 'expires_at', 'last_used_at'])
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .where('expired_at', 'is', null)
    .executeTakeFirst()
  if (key === undefined || key.expires_at === null) return undefined
  const used =
    key.last_used_at === null
      ? 'It was never used.'
      : `It was last used on ${dateTimeText(key.last_used_at)}.`
  return {
    tone: 'calm',
    title: `The API key ${key.name} expires soon`,
    opening: [
      `The key ${key.name} (${key.prefix}) expires on ${dateTimeText(key.expires_at)}. From then on, calls with it are rejected. ${used}`,
    ],
    action: { label: 'Rotate the key', url: `${baseUrl}/settings/api-keys/${id}` },
    closing: [
      'If an integration still needs the key, rotate it: the new key has the same permissions. You choose how long the old key still works, but not beyond its expiry.',
    ],
  }
}

function issuedKey(
  { baseUrl }: NoticeTextDeps,
  id: string,
  { name, prefix, by }: NoticeDetails['api_key.issued'],
): NoticeText {
  return {
    tone: 'plain',
    title: `The API key ${name} was issued`,
    opening: [`${by.label} issued the key ${name} (${prefix}).`],
    action: { label: 'View the key', url: `${baseUrl}/settings/api-keys/${id}` },
    closing: [
      'If the key is not needed, revoke it on that page. Calls with the key are then rejected immediately.',
    ],
  }
}

function changedPaymentDetails(
  { baseUrl, dateTimeText }: NoticeContext,
  { created_at }: NoticeRow,
  { currency, now: newDetails, by }: NoticeDetails['payment_details.changed'],
): NoticeText {
  const accountEnding = newDetails?.account_ending ?? null
  const methods = [
    ...(accountEnding === null ? [] : [`to the bank account that ends in ${accountEnding}`]),
    ...(newDetails?.has_link ? ['by a payment link'] : []),
  ]
  return {
    tone: 'firm',
    title: `The payment details for ${currency} were changed`,
    opening: [
      `${by.label} ${newDetails === null ? 'removed' : 'changed'} the payment details for ${currency}, on ${dateTimeText(created_at)}.`,
      newDetails === null
        ? `Reminders in ${currency} no longer say how to pay, unless an invoice has its own payment link.`
        : `Reminders now ask customers to pay ${methods.join(', or ')}.`,
    ],
    action: { label: 'View how customers pay', url: `${baseUrl}/settings/payment-details` },
    closing: [
      'If you did not expect this, call the person who made the change, and stop reminders with the kill switch until you know that the change is right.',
    ],
  }
}

function twoFactorTurnedOff(
  { baseUrl, dateTimeText }: NoticeContext,
  { created_at }: NoticeRow,
  { email, by }: NoticeDetails['second_factor.removed'],
): NoticeText {
  const login = by.label === email ? 'their own login' : `the login of ${email}`
  return {
    tone: 'firm',
    title: `Two-factor authentication of ${email} was turned off`,
    opening: [
      `${by.label} turned off two-factor authentication for ${login}, on ${dateTimeText(created_at)}. The password alone is now enough to log in.`,
    ],
    action: { label: 'View the people', url: `${baseUrl}/settings/people` },
    closing: [
      'If you did not expect this, call the owner of the login. An Admin can deactivate the login on that page.',
    ],
  }
}

function factorAddedToYourLogin(
  { baseUrl, dateTimeText }: NoticeContext,
  { created_at }: NoticeRow,
  { email, factor, name }: NoticeDetails['user.second_factor_added'],
): NoticeText {
  const [subject, consequence] =
    factor === 'passkey'
      ? [`The passkey ${name}`, 'Anyone who has the passkey can log in as you.']
      : ['An authenticator app', 'You now log in with your password and a code from the app.']
  return {
    tone: 'plain',
    title: `${subject} was added to your login`,
    opening: [
      `${subject} was added to the login of ${email} on ${dateTimeText(created_at)}.`,
      consequence,
    ],
    action: { label: 'View your login', url: `${baseUrl}/settings/two-factor` },
    closing: [
      'If this was not you, remove it on that page, change your password, and tell an Admin of your account.',
    ],
  }
}

function factorRemovedFromYourLogin(
  { baseUrl, dateTimeText }: NoticeContext,
  { created_at }: NoticeRow,
  { email, factor, name, by }: NoticeDetails['user.second_factor_removed'],
): NoticeText {
  const subject = factor === 'passkey' ? `The passkey ${name}` : 'The authenticator app'
  const actor = by.label === email ? '' : ` by ${by.label}`
  return {
    tone: 'firm',
    title: `${subject} was removed from your login`,
    opening: [
      `${subject} was removed from the login of ${email}${actor}, on ${dateTimeText(created_at)}. It can no longer be used to log in.`,
    ],
    action: { label: 'View your login', url: `${baseUrl}/settings/two-factor` },
    closing: ['If this was not you, change your password and tell an Admin of your account.'],
  }
}

function unknownBrowser(
  { baseUrl, dateTimeText }: NoticeContext,
  { created_at }: NoticeRow,
  { email, browser, address, is_last }: NoticeDetails['user.unknown_browser'],
): NoticeText {
  const from = address === null ? '' : `, from the address ${address}`
  return {
    tone: 'firm',
    title: 'Your login was used in a new browser',
    opening: [
      `Browser: ${browser}${from}. Time: ${dateTimeText(created_at)}. Login: ${email}.`,
      'This browser has not been used to log in as you before, or its cookies were deleted.',
    ],
    action: { label: 'View your sessions', url: `${baseUrl}/settings/login-details` },
    closing: [
      'If this was you, there is nothing to do. If it was not, end all sessions on that page, change your password, and tell an Admin of your account.',
      ...(is_last
        ? ['This is the last of these mails for 24 hours. The page lists all sessions.']
        : []),
    ],
  }
}

function wrongCodes(
  { baseUrl, dateTimeText }: NoticeContext,
  { created_at }: NoticeRow,
  { email, address }: NoticeDetails['user.wrong_codes'],
): NoticeText {
  const from = address === null ? '' : `, from the address ${address}`
  return {
    tone: 'firm',
    title: 'Wrong codes were entered for your login',
    opening: [
      `Someone entered the password of ${email}, and then several wrong codes of the second factor. The last one was entered on ${dateTimeText(created_at)}${from}. These logins were rejected.`,
    ],
    action: { label: 'Change your password', url: `${baseUrl}/settings/login-details` },
    closing: [
      'If this was you, there is nothing to do. If it was not, another person knows your password: change it, and tell an Admin of your account.',
      'You get this mail at most once in 24 hours.',
    ],
  }
}

async function customerReply(
  reader: Reader,
  { baseUrl }: NoticeTextDeps,
  notice: NoticeRow,
): Promise<NoticeText | undefined> {
  const reply = await reader
    .selectFrom('messages')
    .innerJoin('debtors', 'debtors.id', 'messages.debtor_id')
    .select(['messages.subject', 'messages.body', 'debtors.id', 'debtors.name'])
    .where('messages.account_id', '=', notice.account_id)
    .where('messages.id', '=', notice.subject_id)
    .executeTakeFirst()
  if (reply === undefined || reply.body === null) return undefined
  const quote = trimLines(truncate(reply.body, QUOTE_UNITS_MAX)).split('\n\n')
  const isCut = reply.body.length > QUOTE_UNITS_MAX
  return {
    tone: 'calm',
    title: `${reply.name} replied to a reminder`,
    opening: [
      'Reminders to this customer are paused until someone in your account decides how to continue.',
      `“${reply.subject ?? ''}”`,
      ...quote,
      ...(isCut ? ['…'] : []),
    ],
    action: { label: 'View the customer', url: `${baseUrl}/settings/customers/${reply.id}` },
    closing: ['A reply to this e-mail does not reach the customer.'],
  }
}

function dateTimeTextIn(timezone: string): NoticeContext['dateTimeText'] {
  const format = new Intl.DateTimeFormat('en-GB', {
    dateStyle: 'long',
    timeStyle: 'short',
    timeZone: timezone,
  })
  return (instant) => `${format.format(Date.parse(instant))} (${timezone})`
}
