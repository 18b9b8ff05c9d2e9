/**
 * The routes of unsubscribe links. A GET request changes nothing, because mail scanners open every link. A POST request
 * from a mail program (RFC 8058) unsubscribes; a POST request from the page's buttons unsubscribes or subscribes again.
 * The requests need neither a cookie nor a CSRF token, because only the recipient has the link.
 */
import type { Request, ResponseToolkit, ServerRoute } from '@hapi/hapi'
import { senderNameOf } from '../accounts/sender.ts'
import type { Database } from '../database/database.ts'
import { resubscribeAddress, suppressAddress } from '../debtors/contactability.ts'
import { findSuppression } from '../debtors/suppressed-addresses.ts'
import {
  type Subscription,
  UNSUBSCRIBE_PATH,
  type UnsubscribeLinks,
} from '../mail/unsubscribe-links.ts'
import { acceptedTags, chooseLanguage, type Language } from '../mail/wording/languages.ts'
import { maskRecipient } from '../messages/shown-text.ts'
import { PAGE_HEADERS, renderBrokenLink, renderUnsubscribe, type UnsubscribeView } from './page.ts'

/** A longer body is not parsed. The form of our page is much shorter. */
const CHOICE_BYTES_MAX = 200

export interface UnsubscribeDeps {
  readonly database: Database
  readonly unsubscribeLinks: UnsubscribeLinks
  readonly clock: () => Date
}

export function unsubscribeRoutes(deps: UnsubscribeDeps): ServerRoute[] {
  // Without the `*`, a recipient whose link has been cut before its token would get the JSON of an API error.
  const path = `${UNSUBSCRIBE_PATH}/{token*}`
  return [
    { method: 'GET', path, handler: (request, h) => show(request, h, deps) },
    { method: 'POST', path, handler: (request, h) => changeSubscription(request, h, deps) },
  ]
}

async function show(request: Request, h: ResponseToolkit, deps: UnsubscribeDeps) {
  const subscription = deps.unsubscribeLinks.open(tokenOf(request))
  if (subscription === undefined) return respondToBrokenLink(request, h)
  const isStopped = await hasStoppedReminders(subscription, deps)
  return respond(request, h, subscription, isStopped ? 'stopped' : 'confirm', deps)
}

async function changeSubscription(request: Request, h: ResponseToolkit, deps: UnsubscribeDeps) {
  const subscription = deps.unsubscribeLinks.open(tokenOf(request))
  if (subscription === undefined) return respondToBrokenLink(request, h)
  const { database, clock } = deps
  const { accountId, address } = subscription
  if (choiceOf(request) === 'resume') {
    await database.transaction((tx) => resubscribeAddress(tx, accountId, address, clock()))
    // After a complaint, the address remains suppressed.
    const isStopped = await hasStoppedReminders(subscription, deps)
    return respond(request, h, subscription, isStopped ? 'stopped' : 'resumed', deps)
  }
  if (!(await hasStoppedReminders(subscription, deps))) {
    const suppression = { reason: 'unsubscribed', detail: null, messageId: null } as const
    await database.transaction((tx) =>
      suppressAddress(tx, { ...suppression, accountId, address }, clock()),
    )
  }
  return respond(request, h, subscription, 'stopped', deps)
}

/** Returns '' if the path ends before the token. */
function tokenOf({ params }: Request): string {
  return String(params['token'] ?? '')
}

/** With any result but `resume`, the recipient unsubscribes: a mail program sends another form, or no body. */
function choiceOf({ payload, headers }: Request): string | null {
  const isForm = /^application\/x-www-form-urlencoded/i.test(String(headers['content-type']))
  if (!isForm || !Buffer.isBuffer(payload) || payload.length > CHOICE_BYTES_MAX) return null
  return new URLSearchParams(payload.toString('latin1')).get('wish')
}

/** Whether the recipient has stopped reminders, by unsubscribing or by a complaint. */
async function hasStoppedReminders(
  { accountId, address }: Subscription,
  { database }: UnsubscribeDeps,
): Promise<boolean> {
  const suppression = await findSuppression(database.read, accountId, address)
  return suppression !== undefined && suppression.reason !== 'bounced'
}

async function respond(
  request: Request,
  h: ResponseToolkit,
  { accountId, address }: Subscription,
  state: UnsubscribeView['state'],
  { database }: UnsubscribeDeps,
) {
  const account = await database.read
    .selectFrom('accounts')
    .select(['name', 'sender_name'])
    .where('id', '=', accountId)
    .executeTakeFirst()
  if (account === undefined) return respondToBrokenLink(request, h)
  const debtor = await database.read
    .selectFrom('debtors')
    .select('language')
    .where('account_id', '=', accountId)
    .where(({ fn }) => fn('lower', ['email']), '=', address.toLowerCase())
    .where('language', 'is not', null)
    .executeTakeFirst()
  const language = languageOf(request, debtor?.language)
  const view = { language, state, creditor: senderNameOf(account), address: maskRecipient(address) }
  return page(h, 200, renderUnsubscribe(view))
}

function respondToBrokenLink(request: Request, h: ResponseToolkit) {
  return page(h, 404, renderBrokenLink(languageOf(request, null)))
}

/** Returns the debtor's language, in which mails are written, or else a language that the browser prefers. */
function languageOf({ headers }: Request, debtorLanguage: string | null | undefined): Language {
  return chooseLanguage(debtorLanguage, ...acceptedTags(String(headers['accept-language'] ?? '')))
}

function page(h: ResponseToolkit, status: number, html: string) {
  const response = h.response(html).code(status).type('text/html; charset=utf-8')
  for (const [name, value] of Object.entries(PAGE_HEADERS)) response.header(name, value)
  return response
}
