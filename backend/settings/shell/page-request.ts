/**
 * Checks each request to Settings before the page's own code runs: origin, session, role, second factor, CSRF token
 * and recent password. Determines whether the response is HTML or JSON.
 */
import type { Request, ServerRoute } from '@hapi/hapi'
import { readAccept } from '../../../shared/contract/accept.ts'
import { CLIENT_ADDRESS_HEADER } from '../../../shared/contract/principal.ts'
import { Problem } from '../../../shared/contract/problem.ts'
import type { Logger } from '../../../shared/process/log.ts'
import type { ActionContext } from '../../accounts/audit.ts'
import type { Pepper } from '../../api-keys/peppers.ts'
import { type Database, databaseOf } from '../../database/database.ts'
import type { Transaction } from '../../database/tables.ts'
import type { Idempotency } from '../../idempotency/idempotency.ts'
import type { MailServices } from '../../mail/mail-services.ts'
import { csrfTokenOf, isCsrfToken } from '../../sessions/csrf-token.ts'
import { actorOf } from '../../sessions/login.ts'
import type { RelyingParty } from '../../sessions/relying-party.ts'
import type { SecondFactorBox } from '../../sessions/second-factor.ts'
import {
  findSession,
  recordLastSeen,
  rotateSession,
  type Session,
  setFlash,
} from '../../sessions/sessions.ts'
import type { Usage } from '../../usage/usage.ts'
import type { InvitationCodes } from '../../users/invitation-codes.ts'
import type { Passwords } from '../../users/passwords.ts'
import { createToken } from '../../users/tokens.ts'
import { type Cookies, pageCookieValue, pageInCookie } from './cookies.ts'
import { type Expected, type Fields, NO_FIELDS, parseFields, unsupportedType } from './fields.ts'
import {
  type Frame,
  type FullResponse,
  type RenderPage,
  type Requester,
  type Response,
  writeResponse,
} from './response.ts'
import { checkSameOrigin } from './same-origin.ts'
import type { Flash } from './undo.ts'

/**
 * An action on many records is split into several requests, each of which changes records for this time. A gateway
 * waits ten seconds for a page, and reading before and after the changes takes up to four seconds.
 */
export const STEP_MS = 4000

export interface SettingsDeps {
  readonly database: Database
  readonly usage: Usage
  /** Writes the times at which keys were last used, which this backend buffers, to the database. */
  readonly flushLastUsed: () => Promise<void>
  readonly baseUrl: string
  readonly peppers: readonly Pepper[]
  readonly passwords: Passwords
  /** If it is absent, invitations are not mailed, and Admins must pass on the links themselves. */
  readonly mailedInvitations?: InvitationCodes | undefined
  /** If it is absent, passwords cannot be reset by mail. */
  readonly resetCodes?: InvitationCodes | undefined
  /** If it is absent, no notice is mailed. */
  readonly noticeRouteOf?: MailServices['noticeRouteOf'] | undefined
  /** If it is undefined, the service has no host name, and passkeys cannot be used. */
  readonly relyingParty: RelyingParty | undefined
  /** Encrypts the secrets of authenticator apps. */
  readonly secondFactorBox: SecondFactorBox
  readonly cookies: Cookies
  readonly idempotency: Idempotency
  readonly clock: () => Date
  readonly log: Logger
}

export interface PageRequest extends Requester {
  readonly now: Date
  readonly address: string | undefined
  /** The User-Agent header. */
  readonly userAgent: string | undefined
  /** The value of the session's cookie, valid or not. */
  readonly cookieToken: string | undefined
  /** The value of the browser's own cookie, valid or not. */
  readonly browserToken: string | undefined
  /** The `{id}` of the path. */
  readonly id: string
  readonly query: URLSearchParams
  readonly fields: Fields
}

/** A page request with a session. */
export interface SessionRequest extends PageRequest {
  readonly session: Session
  readonly actionContext: ActionContext
  /**
   * Calls `perform` in a transaction, and resolves with its result. Also stores the message that the next page shows:
   * `flash` is its name, or a function that returns it. A script receives JSON instead of a page, so no message is stored.
   */
  readonly performAction: <T>(
    flash: string | ((result: T) => Flash),
    perform: (tx: Transaction) => Promise<T>,
  ) => Promise<T>
}

/** The methods of an edit: scripts send JSON with PUT; forms use POST, because they cannot send PUT. */
export const EDIT_METHODS = ['PUT', 'POST'] as const

interface Page<V extends PageRequest> {
  readonly method: 'GET' | 'POST' | typeof EDIT_METHODS
  readonly path: string
  readonly expected?: Expected
  handle(pageRequest: V, deps: SettingsDeps): Promise<Response>
  /** Renders the form again with the problem. If it is absent or resolves with undefined, an error page is shown. */
  rerender?(pageRequest: V, problem: Problem, deps: SettingsDeps): Promise<RenderPage | undefined>
}

/** A page before login. */
export interface OpenPage extends Page<PageRequest> {}

export interface SessionPage extends Page<SessionRequest> {
  /** The message of the error page that Members receive. If it is absent, Members may use the page. */
  readonly adminsOnly?: string
  /** Whether the password must have been entered recently, so that an abandoned session does not suffice. */
  readonly needsRecentPassword?: true
  /** Whether Admins may use the page before they have set up the second factor that the account requires. */
  readonly allowedWithoutSecondFactor?: true
}

/** Without a session, a GET for an HTML page is redirected to the login; every other request is rejected with 401. */
export function sessionRoute(page: SessionPage, deps: SettingsDeps): ServerRoute {
  return route(page, deps, async (request, now) => {
    const session = await sessionOf(request, deps, now)
    if (session === undefined) {
      if (page.method === 'GET' && !wantsJson(request)) return redirectToLogin(request, deps)
      throw new Problem('not_logged_in', 'Log in first.', {
        headers: { 'www-authenticate': 'Cookie realm="settings"' },
      })
    }
    storeErrorFrame(request, session)
    if (page.adminsOnly !== undefined && session.user.role !== 'admin') {
      throw new Problem('admin_required', page.adminsOnly)
    }
    if (lacksSecondFactor(session) && !page.allowedWithoutSecondFactor) {
      if (page.method === 'GET' && !wantsJson(request)) return { location: '/settings/two-factor' }
      throw new Problem(
        'second_factor_required',
        'Your account requires two-factor authentication of its Admins. Set it up at /settings/two-factor.',
      )
    }
    const fields = await fieldsOf(request, page)
    checkToken(request, fields, session.token)
    const redirect = page.needsRecentPassword && requireRecentPassword(request, session, now)
    if (redirect !== undefined) return redirect
    // All transactions of the page take turns as transactions of the account.
    const depsOfAccount = { ...deps, database: databaseOf(deps.database, session.account.id) }
    const token = await refreshSession(depsOfAccount.database, session, now)
    storeErrorFrame(request, { ...session, token })
    const pageRequest = pageRequestOf(
      request,
      deps,
      fields,
      { ...session, token },
      now,
      csrfTokenOf(token),
    )
    const sessionRequest = {
      ...pageRequest,
      session: { ...session, token },
      actionContext: { actor: actorOf(session.user, pageRequest.address), now },
      performAction: createPerformAction(depsOfAccount, token, pageRequest.wantsJson),
    }
    const response = await respondWithPage(page, sessionRequest, depsOfAccount, request)
    return token === session.token ? response : { token, ...response }
  })
}

/**
 * A form before login must contain a CSRF token that is derived from the login cookie. A JSON request needs no
 * token, because forms of other sites cannot send JSON.
 */
export function openRoute(page: OpenPage, deps: SettingsDeps): ServerRoute {
  return route(page, deps, async (request, now) => {
    const session = await sessionOf(request, deps, now)
    const given = deps.cookies.login.read(request.raw.req.headers.cookie)
    const secret = given !== undefined && /^[\w-]{43}$/.test(given) ? given : createToken()
    const fields = await fieldsOf(request, page)
    if (page.method !== 'GET' && !fields.isJson) {
      if (request.headers['content-type'] === undefined) throw unsupportedType()
      checkToken(request, fields, secret)
    }
    const pageRequest = pageRequestOf(request, deps, fields, session, now, csrfTokenOf(secret))
    const response = await respondWithPage(page, pageRequest, deps, request)
    // After a login, the cookie of the login form is no longer needed.
    const cookies =
      response.token !== undefined && given !== undefined ? [deps.cookies.login.clear] : []
    if (response.completesLogin) return afterLogin(request, { ...response, cookies }, deps)
    if (cookies.length > 0) return { ...response, cookies }
    const isForm = response.page !== undefined && !pageRequest.wantsJson
    const isNew = secret !== given && (isForm || response.bindsBrowser)
    return isNew ? { ...response, cookies: [deps.cookies.login.set(secret)] } : response
  })
}

function redirectToLogin({ headers, raw }: Request, { cookies }: SettingsDeps): FullResponse {
  const location = '/settings/login'
  // An open page also requests pictures and documents, to which the login must not lead.
  const isPage = ['document', undefined].includes(textOf(headers['sec-fetch-dest']))
  const { url = '' } = raw.req
  return isPage ? { location, cookies: [cookies.page.set(pageCookieValue(url))] } : { location }
}

function afterLogin(
  { raw }: Request,
  response: FullResponse,
  { cookies }: SettingsDeps,
): FullResponse {
  const value = cookies.page.read(raw.req.headers.cookie)
  if (value === undefined) return response
  const location = pageInCookie(value) ?? response.location ?? '/settings'
  return { ...response, location, cookies: [...(response.cookies ?? []), cookies.page.clear] }
}

function createPerformAction(
  { database }: SettingsDeps,
  token: string,
  isScript: boolean,
): SessionRequest['performAction'] {
  return (flash, perform) =>
    database.transaction(async (tx) => {
      const result = await perform(tx)
      if (isScript) return result
      const { name, undo } = typeof flash === 'string' ? { name: flash } : flash(result)
      await setFlash(tx, token, name, undo)
      return result
    })
}

function lacksSecondFactor({ user, account }: Session): boolean {
  return account.requiresSecondFactor && user.role === 'admin' && !user.hasSecondFactor
}

/** The time for which an entered password counts as recent. */
const CONFIRMED_MS = 15 * 60_000
/**
 * A form is shown only if the password still counts as recent for this time, so that people have time to send the
 * form.
 */
const FORM_MS = 5 * 60_000

/**
 * Returns undefined if the password was entered recently. Otherwise, a GET for an HTML page is redirected to the page on
 * which the user enters the password, and every other request is rejected.
 */
function requireRecentPassword(
  request: Request,
  { confirmedAt }: Session,
  now: Date,
): FullResponse | undefined {
  const isForm = request.method === 'get' || request.method === 'head'
  const ageMs = now.getTime() - confirmedAt.getTime()
  if (ageMs < (isForm ? CONFIRMED_MS - FORM_MS : CONFIRMED_MS)) return undefined
  if (isForm && !wantsJson(request)) {
    return { location: `/settings/confirm?next=${encodeURIComponent(request.path)}` }
  }
  throw new Problem(
    'confirmation_required',
    'Enter your password again at /settings/confirm before you do this.',
  )
}

const ERROR_FRAMES = new WeakMap<Request, Frame>()

/** Returns the frame of an error page, with the navigation if the request has a session. */
export function errorFrameOf(request: Request): Frame {
  return ERROR_FRAMES.get(request) ?? NO_SESSION
}

const NO_SESSION: Frame = { session: undefined, csrfToken: '', flash: null, killSwitch: undefined }

function storeErrorFrame(request: Request, session: Session): void {
  const csrfToken = csrfTokenOf(session.token)
  ERROR_FRAMES.set(request, { session, csrfToken, flash: null, killSwitch: undefined })
}

/** Returns a handler that throws the problem. The error page has the navigation if the request has a session. */
export function problemHandler(
  problem: Problem,
  deps: SettingsDeps,
): NonNullable<ServerRoute['handler']> {
  return async (request) => {
    const session = await sessionOf(request, deps, deps.clock())
    if (session !== undefined) storeErrorFrame(request, session)
    throw new Problem(problem.code, problem.message)
  }
}

type Respond = (request: Request, now: Date) => Promise<FullResponse>

function route(
  { method, path }: Pick<Page<PageRequest>, 'method' | 'path'>,
  deps: SettingsDeps,
  respond: Respond,
): ServerRoute {
  return {
    method: typeof method === 'string' ? method : [...method],
    path,
    async handler(request, h) {
      if (method !== 'GET') checkSameOrigin(request.headers, deps.baseUrl)
      return writeResponse(request, h, await respond(request, deps.clock()), deps)
    },
  }
}

async function respondWithPage<V extends PageRequest>(
  page: Page<V>,
  pageRequest: V,
  deps: SettingsDeps,
  request: Request,
): Promise<FullResponse> {
  try {
    return { ...(await page.handle(pageRequest, deps)), requester: pageRequest }
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500) throw error
    if (pageRequest.wantsJson || page.rerender === undefined) throw error
    const rerendered = await page.rerender(pageRequest, error, deps)
    if (rerendered === undefined) throw error
    deps.log.info({ requestId: request.headers['x-request-id'], path: page.path }, error.code)
    return {
      status: error.status,
      page: rerendered,
      headers: error.headers,
      requester: pageRequest,
    }
  }
}

/** Browsers accept HTML explicitly. A client that sends JSON without an Accept header receives JSON. */
export function wantsJson({ headers }: Pick<Request, 'headers'>): boolean {
  const accepted = readAccept(String(headers['accept'] ?? ''))
  if (accepted.get('text/html')) return false
  if (accepted.get('application/json') || accepted.get('application/problem+json')) return true
  return /^application\/json/i.test(String(headers['content-type'] ?? ''))
}

function pageRequestOf(
  request: Request,
  { cookies }: SettingsDeps,
  fields: Fields,
  session: Session | undefined,
  now: Date,
  csrfToken: string,
): PageRequest {
  const [, query = ''] = (request.raw.req.url ?? '').split(/\?(.*)/s)
  return {
    now,
    address: addressOf(request),
    userAgent: textOf(request.headers['user-agent']),
    wantsJson: wantsJson(request),
    cookieToken: cookies.session.read(request.raw.req.headers.cookie),
    browserToken: cookies.browser.read(request.raw.req.headers.cookie),
    id: String(request.params['id'] ?? ''),
    query: new URLSearchParams(query),
    fields,
    csrfToken,
    session,
  }
}

/** The gateway sends the client's address in a header, which is trusted because the gateway signs its requests. */
function addressOf({ headers }: Request): string | undefined {
  return textOf(headers[CLIENT_ADDRESS_HEADER])
}

function textOf(header: unknown): string | undefined {
  return typeof header === 'string' && header !== '' ? header : undefined
}

function sessionOf(request: Request, { database, cookies }: SettingsDeps, now: Date) {
  return findSession(database.read, cookies.session.read(request.raw.req.headers.cookie), now)
}

async function fieldsOf(request: Request, { method, expected = {} }: Page<never>): Promise<Fields> {
  if (method === 'GET') return NO_FIELDS
  const { payload } = request
  const body = new Uint8Array(Buffer.isBuffer(payload) ? payload : [])
  return parseFields(body, String(request.headers['content-type'] ?? ''), expected)
}

function checkToken(request: Request, fields: Fields, secret: string): void {
  if (request.method === 'get' || request.method === 'head') return
  const header = request.headers['x-csrf-token']
  const given = typeof header === 'string' ? header : fields.isJson ? '' : fields.text('csrf_token')
  if (isCsrfToken(given, secret)) return
  throw new Problem(
    'invalid_csrf_token',
    'The page is out of date. Go back, load it again, and repeat what you did.',
  )
}

/**
 * Returns the session's token, which is a new one if the user's role has changed. If a concurrent request of the browser
 * has replaced the token, returns the old token: a cookie with another one would log the browser out.
 */
async function refreshSession(database: Database, session: Session, now: Date): Promise<string> {
  if (!session.hasRoleChanged && !session.isLastSeenOutdated) return session.token
  return database.transaction(async (tx) => {
    await recordLastSeen(tx, session.token, now)
    const rotated = session.hasRoleChanged ? await rotateSession(tx, session) : undefined
    return rotated ?? session.token
  })
}
