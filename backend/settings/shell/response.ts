import type { Readable } from 'node:stream'
import type { Request, ResponseObject, ResponseToolkit } from '@hapi/hapi'
import { readAccept } from '../../../shared/contract/accept.ts'
import { Problem } from '../../../shared/contract/problem.ts'
import type { Database } from '../../database/database.ts'
import type { Html } from '../../html/html.ts'
import { type KillSwitch, readKillSwitches } from '../../reminders/kill-switch.ts'
import { setFlash } from '../../sessions/flash.ts'
import type { Session } from '../../sessions/sessions.ts'
import type { Cookies } from './cookies.ts'

/** What the layout of every page needs. */
export interface Frame {
  readonly session: Session | undefined
  readonly csrfToken: string
  /**
   * The message to show once, as `setFlash` stores it: its name or, if the message has an Undo button, JSON with the
   * name and the request of the button.
   */
  readonly flash: string | null
  /** The active kill switch, if any. */
  readonly killSwitch: KillSwitch | undefined
}

export type RenderPage = (frame: Frame) => Html

export interface PageResponse {
  readonly status?: number
  /**
   * The response to a client that wants JSON, unless there is a `file` or an `image`. If it is undefined, such a client
   * gets the status 204, or 406 if there is a `page` or a `document`.
   */
  readonly json?: unknown
  readonly page?: RenderPage
  /** A complete HTML document, which a page shows in an iframe. */
  readonly document?: string
  readonly image?: { readonly mediaType: string; readonly content: Buffer }
  /** A CSV file to download, which is streamed. */
  readonly file?: { readonly name: string; readonly content: Readable }
  /**
   * Whether a login is complete. The redirect then leads to the page that was requested without a session or, if there
   * was no such request, to `location`.
   */
  readonly completesLogin?: true
  /** The target of a redirect, instead of a page. */
  readonly location?: string
  /**
   * Sets the cookie `login` (see `Cookies`) although the response contains no form: the next request must come from
   * this browser.
   */
  readonly bindsBrowser?: true
  /** The token of a new session, or null if the session has ended. */
  readonly token?: string | null
  /** After a login, the value of the cookie that identifies the browser. */
  readonly browserToken?: string | undefined
}

/** The part of the page request that rendering needs. */
export interface Requester {
  readonly wantsJson: boolean
  readonly session: Session | undefined
  /** The CSRF token of the session, or of the form before login. */
  readonly csrfToken: string
}

export interface FullResponse extends PageResponse {
  readonly cookies?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  /** Undefined if the request is redirected before the page's own code runs, e.g. to the login. */
  readonly requester?: Requester
}

/**
 * Browsers accept HTML explicitly. A client that accepts neither HTML nor JSON explicitly receives JSON if it sends
 * JSON.
 */
export function wantsJson({ headers }: Pick<Request, 'headers'>): boolean {
  const accepted = readAccept(String(headers['accept'] ?? ''))
  if (accepted.get('text/html')) return false
  if (accepted.get('application/json') || accepted.get('application/problem+json')) return true
  return /^application\/json/i.test(String(headers['content-type'] ?? ''))
}

/** Sets cookies and headers; the response is never cached. */
export async function writeResponse(
  request: Request,
  h: ResponseToolkit,
  result: FullResponse,
  {
    database,
    cookies: { session, browser },
  }: { readonly database: Database; readonly cookies: Cookies },
): Promise<ResponseObject> {
  const response = await write(request, h, result, database)
  for (const [name, value] of Object.entries(result.headers ?? {})) response.header(name, value)
  const sessionCookies =
    result.token === undefined
      ? []
      : [result.token === null ? session.clear : session.set(result.token)]
  const browserCookies = result.browserToken === undefined ? [] : [browser.set(result.browserToken)]
  for (const cookie of [...(result.cookies ?? []), ...sessionCookies, ...browserCookies]) {
    response.header('set-cookie', cookie, { append: true })
  }
  return response.header('cache-control', 'no-store')
}

async function write(
  request: Request,
  h: ResponseToolkit,
  { status, json, page, document, image, file, location, requester }: FullResponse,
  database: Database,
) {
  if (file !== undefined) {
    return h
      .response(file.content)
      .type('text/csv; charset=utf-8')
      .header('content-disposition', `attachment; filename="${file.name}"`)
  }
  if (image !== undefined) return h.response(image.content).type(image.mediaType)
  if (requester?.wantsJson) {
    if (json === undefined && (page !== undefined || document !== undefined)) {
      throw new Problem('not_acceptable', 'This page exists as HTML only: accept text/html.')
    }
    if (json === undefined) return h.response().code(204)
    return h
      .response(JSON.stringify(json))
      .code(status ?? 200)
      .type(JSON_MEDIA_TYPE)
  }
  if (location !== undefined && request.headers['x-dialog'] === '1') {
    // `dialogs.js` would follow a redirect, and the flash message would be used up before the page is shown. The body
    // is HTML, because `dialogs.js` makes browsers parse each response as a document. Without a media type, they would
    // parse it as XML, fail, and create an error page whose styles violate the content security policy.
    return h.response(DONE).type(HTML_MEDIA_TYPE).header('x-location', encodeLocation(location))
  }
  if (location !== undefined) {
    return h.response().code(303).header('location', encodeLocation(location))
  }
  if (document !== undefined) {
    return h
      .response(document)
      .code(status ?? 200)
      .type(HTML_MEDIA_TYPE)
  }
  const { session, csrfToken = '' } = requester ?? {}
  // A page that responds to a form, e.g. with errors, does not show the flash message: the next page shows it.
  const isRead = request.method === 'get'
  const flash = isRead ? (session?.flash ?? null) : null
  if (session !== undefined && flash !== null) {
    const { token, account } = session
    await database.transaction((tx) => setFlash(tx, token, null), { accountId: account.id })
  }
  const killSwitch = session && (await findActiveKillSwitch(database, session))
  const content = page?.({ session, csrfToken, flash, killSwitch }).text ?? ''
  return h
    .response(content)
    .code(status ?? 200)
    .type(HTML_MEDIA_TYPE)
}

/** A location may contain the id from the path of the request, and this id can contain any characters. */
function encodeLocation(location: string): string {
  return location.replace(/[^\x21-\x7e]/gu, encodeURIComponent)
}

/** `readKillSwitches` returns the installation's switch first, so it takes precedence over the account's. */
async function findActiveKillSwitch({ read }: Database, { account }: Session) {
  const switches = await readKillSwitches(read, account.id)
  return switches.find(({ isOn }) => isOn)
}

const JSON_MEDIA_TYPE = 'application/json; charset=utf-8'
const DONE = '<!doctype html><html lang="en"><title>Done</title></html>'
const HTML_MEDIA_TYPE = 'text/html; charset=utf-8'
