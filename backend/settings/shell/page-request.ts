/**
 * One request to Settings: who asks, in which language of the two (HTML, JSON), and whether they may.
 * What is refused here is refused before a page's own code runs.
 */
import type { Request, ServerRoute } from '@hapi/hapi'
import { CLIENT_ADDRESS_HEADER } from '../../../shared/contract/principal.ts'
import { Problem } from '../../../shared/contract/problem.ts'
import type { Logger } from '../../../shared/process/log.ts'
import type { Act } from '../../accounts/audit.ts'
import type { Pepper } from '../../api-keys/peppers.ts'
import type { Database } from '../../database/database.ts'
import { actorOf } from '../../sessions/login.ts'
import {
  csrfTokenOf,
  findSession,
  isCsrfToken,
  noteSeen,
  rotateSession,
  type Session,
} from '../../sessions/sessions.ts'
import type { Usage } from '../../usage/usage.ts'
import type { InvitationCodes } from '../../users/invitation-codes.ts'
import type { Passwords } from '../../users/passwords.ts'
import { createToken } from '../../users/tokens.ts'
import type { Cookies } from './cookies.ts'
import { type Expected, type Fields, NO_FIELDS, parseFields, unsupportedType } from './fields.ts'
import { type Answer, type Asker, type Draw, type FullAnswer, writeAnswer } from './response.ts'
import { checkSameOrigin } from './same-origin.ts'

export interface SettingsDeps {
  readonly database: Database
  readonly usage: Usage
  readonly baseUrl: string
  readonly peppers: readonly Pepper[]
  readonly passwords: Passwords
  /** Absent: invitations are not mailed, their links are handed on by people. */
  readonly mailedInvitations?: InvitationCodes | undefined
  readonly cookies: Cookies
  readonly clock: () => Date
  readonly log: Logger
}

export interface PageRequest extends Asker {
  readonly now: Date
  readonly address: string | undefined
  /** The path's `{id}`. */
  readonly id: string
  readonly query: URLSearchParams
  readonly fields: Fields
}

/** By someone who is logged in. */
export interface SessionRequest extends PageRequest {
  readonly session: Session
  readonly act: Act
}

interface Page<V extends PageRequest> {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly path: string
  readonly expected?: Expected
  handle(pageRequest: V, deps: SettingsDeps): Promise<Answer>
  /** The form again, with what was wrong. Undefined: a page of its own says it. */
  redraw?(pageRequest: V, problem: Problem, deps: SettingsDeps): Promise<Draw | undefined>
}

/** Before login. */
export interface OpenPage extends Page<PageRequest> {}

export interface SessionPage extends Page<SessionRequest> {
  /** What others are told, where it is for Admins alone. */
  readonly admins?: string
}

/** Reading without a session leads to the login; all else without one is 401. */
export function sessionRoute(page: SessionPage, deps: SettingsDeps): ServerRoute {
  return route(page, deps, async (request, now) => {
    const session = await sessionOf(request, deps, now)
    if (session === undefined) {
      if (page.method === 'GET' && !wantsJson(request)) return { location: '/settings/login' }
      throw new Problem('not_logged_in', 'Log in first.', {
        headers: { 'www-authenticate': 'Cookie realm="settings"' },
      })
    }
    if (page.admins !== undefined && session.user.role !== 'admin') {
      throw new Problem('admin_required', page.admins)
    }
    const fields = fieldsOf(request, page)
    checkToken(request, fields, session.token)
    const token = await keepSession(deps.database, session, now)
    const pageRequest = pageRequestOf(
      request,
      fields,
      { ...session, token },
      now,
      csrfTokenOf(token),
    )
    const sessionRequest = {
      ...pageRequest,
      session: { ...session, token },
      act: { actor: actorOf(session.user, pageRequest.address), now },
    }
    const answer = await answerPage(page, sessionRequest, deps, request)
    return token === session.token ? answer : { token, ...answer }
  })
}

/** A form before login carries a token of its own cookie; JSON, which no form can send, needs none. */
export function openRoute(page: OpenPage, deps: SettingsDeps): ServerRoute {
  return route(page, deps, async (request, now) => {
    const session = await sessionOf(request, deps, now)
    const given = deps.cookies.login.read(request.raw.req.headers.cookie)
    const secret = given !== undefined && /^[\w-]{43}$/.test(given) ? given : createToken()
    const fields = fieldsOf(request, page)
    if (page.method !== 'GET' && !fields.isJson) {
      if (request.headers['content-type'] === undefined) throw unsupportedType()
      checkToken(request, fields, secret)
    }
    const pageRequest = pageRequestOf(request, fields, session, now, csrfTokenOf(secret))
    const answer = await answerPage(page, pageRequest, deps, request)
    // What the form needed is used up with it.
    if (answer.token !== undefined && given !== undefined) {
      return { ...answer, cookies: [deps.cookies.login.clear] }
    }
    const isNew = secret !== given && answer.page !== undefined && !pageRequest.wantsJson
    return isNew ? { ...answer, cookies: [deps.cookies.login.set(secret)] } : answer
  })
}

type Open = (request: Request, now: Date) => Promise<FullAnswer>

function route(
  { method, path }: Pick<Page<PageRequest>, 'method' | 'path'>,
  deps: SettingsDeps,
  open: Open,
): ServerRoute {
  return {
    method,
    path,
    async handler(request, h) {
      if (method !== 'GET') checkSameOrigin(request.headers, deps.baseUrl)
      return writeAnswer(request, h, await open(request, deps.clock()), deps)
    },
  }
}

async function answerPage<V extends PageRequest>(
  page: Page<V>,
  pageRequest: V,
  deps: SettingsDeps,
  request: Request,
): Promise<FullAnswer> {
  try {
    return { ...(await page.handle(pageRequest, deps)), asker: pageRequest }
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500) throw error
    if (pageRequest.wantsJson || page.redraw === undefined) throw error
    const redrawn = await page.redraw(pageRequest, error, deps)
    if (redrawn === undefined) throw error
    deps.log.info({ requestId: request.headers['x-request-id'], path: page.path }, error.code)
    return { status: error.status, page: redrawn, headers: error.headers, asker: pageRequest }
  }
}

/** Browsers name HTML; who sends JSON and names nothing wants JSON. */
export function wantsJson({ headers }: Pick<Request, 'headers'>): boolean {
  const accept = String(headers['accept'] ?? '')
  if (/text\/html/i.test(accept)) return false
  if (/application\/(?:problem\+)?json/i.test(accept)) return true
  return /^application\/json/i.test(String(headers['content-type'] ?? ''))
}

function pageRequestOf(
  request: Request,
  fields: Fields,
  session: Session | undefined,
  now: Date,
  csrfToken: string,
): PageRequest {
  const [, query = ''] = (request.raw.req.url ?? '').split(/\?(.*)/s)
  return {
    now,
    address: addressOf(request),
    wantsJson: wantsJson(request),
    id: String(request.params['id'] ?? ''),
    query: new URLSearchParams(query),
    fields,
    csrfToken,
    session,
  }
}

/** The gateway's word: its requests are signed. */
function addressOf({ headers }: Request): string | undefined {
  const address = headers[CLIENT_ADDRESS_HEADER]
  return typeof address === 'string' && address !== '' ? address : undefined
}

function sessionOf(request: Request, { database, cookies }: SettingsDeps, now: Date) {
  return findSession(database.read, cookies.session.read(request.raw.req.headers.cookie), now)
}

function fieldsOf(request: Request, { method, expected = {} }: Page<never>): Fields {
  if (method === 'GET') return NO_FIELDS
  const { payload } = request
  const body = Buffer.isBuffer(payload) ? payload : Buffer.alloc(0)
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

/** The session's token from here on. */
async function keepSession(database: Database, session: Session, now: Date): Promise<string> {
  if (!session.isStale && !session.isUnseen) return session.token
  return database.transaction(async (tx) => {
    await noteSeen(tx, session.token, now)
    return session.isStale ? rotateSession(tx, session) : session.token
  })
}
