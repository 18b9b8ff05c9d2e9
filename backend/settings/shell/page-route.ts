/**
 * Creates the routes of pages. Before the code of a page runs, its route checks the origin and the CSRF token of the
 * request. A page that needs a session also requires the role, the second factor and a recent password, where they
 * apply.
 */
import type { Request, ServerRoute } from '@hapi/hapi'
import { CLIENT_ADDRESS_HEADER } from '../../../shared/contract/principal.ts'
import { Problem } from '../../../shared/contract/problem.ts'
import { type Database, databaseOf } from '../../database/database.ts'
import { csrfTokenOf, isCsrfToken } from '../../sessions/csrf-token.ts'
import { setFlash } from '../../sessions/flash.ts'
import { actorOf } from '../../sessions/login.ts'
import {
  findSession,
  recordLastSeen,
  rotateSession,
  type Session,
} from '../../sessions/sessions.ts'
import { createToken } from '../../users/tokens.ts'
import { pageCookieValue, pageInCookie } from './cookies.ts'
import { type Fields, FORM_USER_ID, NO_FIELDS, parseFields, unsupportedType } from './fields.ts'
import {
  isKeepable,
  outdatedTokenProblem,
  renderFormWithoutSecondFactor,
  renderFormWithoutSession,
} from './kept-form.ts'
import type {
  Page,
  PageRequest,
  PublicPage,
  SessionPage,
  SessionRequest,
  SettingsDeps,
} from './page-request.ts'
import { setErrorCookie, storeErrorCookie, storeErrorFrame } from './problem-page.ts'
import { requireRecentPassword } from './recent-password.ts'
import { type FullResponse, wantsJson, writeResponse } from './response.ts'
import { checkSameOrigin } from './security-headers.ts'

/**
 * Without a session, a GET for an HTML page is redirected to the login; every other request is rejected with 401. A
 * form that was opened before the current login is not accepted, but shown again as it was entered.
 */
export function sessionRoute(page: SessionPage, deps: SettingsDeps): ServerRoute {
  return route(page, deps, async (request, now) => {
    const session = await sessionOf(request, deps, now)
    if (session === undefined) {
      if (page.method === 'GET' && !wantsJson(request)) return redirectToLogin(request, deps)
      return rejectWithoutSession(request, page)
    }
    storeErrorFrame(request, session)
    checkRole(page, session)
    if (lacksRequiredSecondFactor(session) && !page.allowedWithoutSecondFactor) {
      if (page.method === 'GET' && !wantsJson(request)) return { location: '/settings/two-factor' }
      return rejectWithoutSecondFactor(request, page, session)
    }
    const fields = await sessionFieldsOf(request, page)
    const pageToHandle = hasCsrfToken(request, fields, session.token)
      ? page
      : pageShowingFormAgain(request, page, fields, session)
    // Transactions of different accounts take turns, so the database must know the account of each transaction.
    const depsOfAccount = { ...deps, database: databaseOf(deps.database, session.account.id) }
    const requestIn = (current: Session): SessionRequest => {
      const csrfToken = csrfTokenOf(current.token)
      const pageRequest = pageRequestOf(request, deps, fields, current, now, csrfToken)
      return {
        ...pageRequest,
        session: current,
        actionContext: { actor: actorOf(current.user, pageRequest.address), now },
        performAction: createPerformAction(depsOfAccount, current.token, pageRequest.wantsJson),
      }
    }
    const confirmation = requiresRecentPassword(pageToHandle, fields)
      ? await requireRecentPassword(request, requestIn(session), depsOfAccount)
      : { session }
    if ('response' in confirmation) return confirmation.response
    // While the password was verified, the session ended, or the user was deactivated.
    if (confirmation.session === undefined) return rejectWithoutSession(request, page)
    const token = await refreshSession(depsOfAccount.database, confirmation.session, now)
    const current = { ...confirmation.session, token }
    storeErrorFrame(request, current)
    try {
      // The role may have changed while the password was verified.
      checkRole(page, current)
      const response = await respondWithPage(
        pageToHandle,
        requestIn(current),
        depsOfAccount,
        request,
      )
      return token === session.token ? response : { token, ...response }
    } catch (error) {
      if (token !== session.token) storeErrorCookie(request, deps.cookies.session.set(token))
      throw error
    }
  })
}

/**
 * Creates the route of a page that needs no session, such as the login. Its form must contain a CSRF token that is
 * derived from the login cookie. A JSON request needs no token, because forms of other sites cannot send JSON.
 */
export function publicRoute(page: PublicPage, deps: SettingsDeps): ServerRoute {
  return route(page, deps, async (request, now) => {
    const session = await sessionOf(request, deps, now)
    const given = deps.cookies.login.read(request.raw.req.headers.cookie)
    // `createToken` returns texts in this format.
    const secret = given !== undefined && /^[\w-]{43}$/.test(given) ? given : createToken()
    const fields = await fieldsOf(request, page)
    if (page.method !== 'GET' && !fields.isJson) {
      // A request with neither a body nor a media type counts as a form. Without this check, a JSON client that sends
      // such a request would receive the error that its page is out of date.
      if (request.headers['content-type'] === undefined) throw unsupportedType()
      if (!hasCsrfToken(request, fields, secret)) throw outdatedPage()
    }
    const pageRequest = pageRequestOf(request, deps, fields, session, now, csrfTokenOf(secret))
    const response = await respondWithPage(page, pageRequest, deps, request)
    // After a login, the cookie of the login form is no longer needed.
    const cookies =
      response.token !== undefined && given !== undefined ? [deps.cookies.login.clear] : []
    if (response.completesLogin) return afterLogin(request, { ...response, cookies }, deps)
    if (cookies.length > 0) return { ...response, cookies }
    const isForm = response.page !== undefined && !pageRequest.wantsJson
    // If the response contains a form or has `bindsBrowser`, the next request must come from this browser.
    const needsLoginCookie = secret !== given && (isForm || response.bindsBrowser)
    return needsLoginCookie ? { ...response, cookies: [deps.cookies.login.set(secret)] } : response
  })
}

/**
 * Returns a page that keeps the form until the user has logged in again. Throws `not_logged_in` if the request contains
 * no form that can be kept.
 */
async function rejectWithoutSession(request: Request, page: SessionPage): Promise<FullResponse> {
  const headers = { 'www-authenticate': 'Cookie realm="settings"' }
  const fields = await findKeepableFields(request, page)
  if (fields === undefined) throw new Problem('not_logged_in', 'Log in first.', { headers })
  return {
    status: 401,
    headers,
    page: (frame) => renderFormWithoutSession(frame, request.path, fields),
  }
}

/**
 * Returns a page that keeps the form until the user has set up a second factor. Throws `second_factor_required` if the
 * request contains no form that can be kept, or the form of another user.
 */
async function rejectWithoutSecondFactor(
  request: Request,
  page: SessionPage,
  { user }: Session,
): Promise<FullResponse> {
  const fields = await findKeepableFields(request, page)
  if (fields?.text(FORM_USER_ID) !== user.id) {
    throw new Problem(
      'second_factor_required',
      'Your account requires two-factor authentication of its Admins. Set it up at /settings/two-factor.',
    )
  }
  return {
    status: 403,
    page: (frame) => renderFormWithoutSecondFactor(frame, request.path, fields),
  }
}

/**
 * Returns undefined if the form could not be shown again, is invalid, or does not contain the id of the user who opened
 * it.
 */
async function findKeepableFields(
  request: Request,
  page: SessionPage,
): Promise<Fields | undefined> {
  if (!canShowAgain(request, page)) return undefined
  try {
    const fields = await sessionFieldsOf(request, page)
    return fields.has(FORM_USER_ID) ? fields : undefined
  } catch (error) {
    if (error instanceof Problem) return undefined
    throw error
  }
}

function canShowAgain(request: Request, { rerender, expected = {} }: SessionPage): boolean {
  return rerender !== undefined && !wantsJson(request) && isKeepable(expected)
}

/**
 * Returns a page that only shows the form again: its handler fails, so `rerender` is called. Throws
 * `invalid_csrf_token` if the form cannot be shown again. A form of another user, who has used the same browser before,
 * is never shown.
 */
function pageShowingFormAgain(
  request: Request,
  page: SessionPage,
  fields: Fields,
  { user }: Session,
): SessionPage {
  if (fields.has(FORM_USER_ID) && fields.text(FORM_USER_ID) !== user.id) {
    throw new Problem(
      'invalid_csrf_token',
      `This form was opened by another user, so nothing was changed. You are logged in as ${user.email}. To see what was entered, log in as the other user and load this page again.`,
    )
  }
  if (!fields.has(FORM_USER_ID) || !canShowAgain(request, page)) throw outdatedPage()
  return {
    ...page,
    needsRecentPassword: () => false,
    handle: () => Promise.reject(outdatedTokenProblem()),
  }
}

function redirectToLogin({ headers, raw }: Request, { cookies }: SettingsDeps): FullResponse {
  const location = '/settings/login'
  // Pages also request pictures and other files. The login must not redirect to these. Old browsers do not send
  // `Sec-Fetch-Dest`, so a request without this header counts as a request for a page.
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
  omitsFlash: boolean,
): SessionRequest['performAction'] {
  return (flash, perform) =>
    database.transaction(async (tx) => {
      const result = await perform(tx)
      if (omitsFlash) return result
      const { name, undo } = typeof flash === 'string' ? { name: flash } : flash(result)
      await setFlash(tx, token, name, undo)
      return result
    })
}

function checkRole({ adminsOnlyMessage }: SessionPage, { user }: Session): void {
  if (adminsOnlyMessage === undefined || user.role === 'admin') return
  throw new Problem('admin_required', adminsOnlyMessage)
}

function lacksRequiredSecondFactor({ user, account }: Session): boolean {
  return account.requiresSecondFactor && user.role === 'admin' && !user.hasSecondFactor
}

function requiresRecentPassword({ needsRecentPassword }: SessionPage, fields: Fields): boolean {
  return typeof needsRecentPassword === 'function'
    ? needsRecentPassword(fields)
    : needsRecentPassword === true
}

/** Returns a handler that throws the problem. The error page has the navigation if the request has a session. */
export function problemHandler(
  problem: Problem,
  deps: SettingsDeps,
): NonNullable<ServerRoute['handler']> {
  return async (request) => {
    const session = await sessionOf(request, deps, deps.clock())
    if (session !== undefined) storeErrorFrame(request, session)
    // Each request throws an error of its own, because hapi adds properties to an error that it handles.
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
    options: { ext: { onPreResponse: { method: setErrorCookie } } },
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
    sessionToken: cookies.session.read(request.raw.req.headers.cookie),
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

/** A form of a page that needs a recent password may contain the password, in addition to the page's own fields. */
function sessionFieldsOf(request: Request, page: SessionPage): Promise<Fields> {
  const acceptsPassword = page.needsRecentPassword !== undefined
  return fieldsOf(request, { ...page, expected: { ...page.expected, acceptsPassword } })
}

async function fieldsOf(
  request: Request,
  { method, expected = {} }: Pick<Page<never>, 'method' | 'expected'>,
): Promise<Fields> {
  if (method === 'GET') return NO_FIELDS
  const { payload } = request
  const body = new Uint8Array(Buffer.isBuffer(payload) ? payload : [])
  return parseFields(body, String(request.headers['content-type'] ?? ''), expected)
}

/** Whether the request contains the CSRF token of the secret, or is a GET, which needs none. */
function hasCsrfToken(request: Request, fields: Fields, secret: string): boolean {
  if (request.method === 'get' || request.method === 'head') return true
  const header = request.headers['x-csrf-token']
  const given = typeof header === 'string' ? header : fields.isJson ? '' : fields.text('csrf_token')
  return isCsrfToken(given, secret)
}

function outdatedPage(): Problem {
  return new Problem(
    'invalid_csrf_token',
    'The page is out of date. Go back, load it again, and repeat what you did.',
  )
}

/**
 * Records when the session was last seen, and replaces its token if the user's role has changed. Returns the token. If
 * a concurrent request has replaced the token, returns the old one, so that this response sets no cookie: the browser
 * gets the valid token in the response to the other request.
 */
async function refreshSession(database: Database, session: Session, now: Date): Promise<string> {
  if (!session.hasRoleChanged && !session.isLastSeenOutdated) return session.token
  return database.transaction(async (tx) => {
    await recordLastSeen(tx, session.token, now)
    const rotated = session.hasRoleChanged ? await rotateSession(tx, session) : undefined
    return rotated ?? session.token
  })
}
