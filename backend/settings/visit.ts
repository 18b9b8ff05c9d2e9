/**
 * One request to Settings: who asks, in which language of the two (HTML, JSON), whether they may,
 * and the answer. What is refused here is refused before a page's own code runs.
 */
import type { Request, ResponseToolkit, ServerRoute } from '@hapi/hapi'
import type { Logger } from '../../shared/log.ts'
import { CLIENT_ADDRESS_HEADER } from '../../shared/principal.ts'
import { Problem } from '../../shared/problem.ts'
import type { Act } from '../accounts/audit.ts'
import type { Pepper } from '../api-keys/peppers.ts'
import type { Database } from '../database/database.ts'
import type { InvitationCodes } from '../mail/invitation-codes.ts'
import { type KillSwitch, readKillSwitches } from '../reminders/kill-switch.ts'
import { actorOf } from '../sessions/login.ts'
import {
  createToken,
  csrfTokenOf,
  findSession,
  isCsrfToken,
  noteSeen,
  rotateSession,
  type Session,
  setFlash,
} from '../sessions/sessions.ts'
import type { Usage } from '../usage/usage.ts'
import type { Passwords } from '../users/passwords.ts'
import type { Cookies } from './cookies.ts'
import { type Expected, type Fields, NO_FIELDS, parseFields, unsupportedType } from './fields.ts'
import type { Html } from './html.ts'
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

export interface Visit {
  readonly now: Date
  readonly address: string | undefined
  readonly wantsJson: boolean
  /** The path's `{id}`. */
  readonly id: string
  readonly query: URLSearchParams
  readonly fields: Fields
  /** Of the session, else of the form before login. */
  readonly csrfToken: string
  readonly session: Session | undefined
}

/** By someone who is logged in. */
export interface Stay extends Visit {
  readonly session: Session
  readonly act: Act
}

/** What a page is drawn with. */
export interface Frame {
  readonly session: Session | undefined
  readonly csrfToken: string
  readonly flash: string | null
  /** The kill switch that is on, if one is. */
  readonly halt: KillSwitch | undefined
}

export type Draw = (frame: Frame) => Html

export interface Answer {
  readonly status?: number
  /** Undefined: 204. */
  readonly json?: unknown
  readonly page?: Draw
  /** HTML of its own, which a page shows in a frame. */
  readonly document?: string
  /** Where a browser goes next, in place of a page. */
  readonly location?: string
  /** A session that begins, or null where it ended. */
  readonly token?: string | null
}

interface Page<V extends Visit> {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly path: string
  readonly expected?: Expected
  handle(visit: V, deps: SettingsDeps): Promise<Answer>
  /** The form again, with what was wrong. Undefined: a page of its own says it. */
  redraw?(visit: V, problem: Problem, deps: SettingsDeps): Promise<Draw | undefined>
}

/** Before login. */
export interface OpenPage extends Page<Visit> {}

export interface StayPage extends Page<Stay> {
  /** What others are told, where it is for Admins alone. */
  readonly admins?: string
}

/** Reading without a session leads to the login; all else without one is 401. */
export function stayRoute(page: StayPage, deps: SettingsDeps): ServerRoute {
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
    const visit = visitOf(request, fields, { ...session, token }, now, csrfTokenOf(token))
    const stay = {
      ...visit,
      session: { ...session, token },
      act: { actor: actorOf(session.user, visit.address), now },
    }
    const answer = await answerPage(page, stay, deps, request)
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
    const visit = visitOf(request, fields, session, now, csrfTokenOf(secret))
    const answer = await answerPage(page, visit, deps, request)
    // What the form needed is used up with it.
    if (answer.token !== undefined && given !== undefined) {
      return { ...answer, cookies: [deps.cookies.login.clear] }
    }
    const isNew = secret !== given && answer.page !== undefined && !visit.wantsJson
    return isNew ? { ...answer, cookies: [deps.cookies.login.set(secret)] } : answer
  })
}

interface FullAnswer extends Answer {
  readonly cookies?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  readonly visit?: Visit
}

type Open = (request: Request, now: Date) => Promise<FullAnswer>

function route(
  { method, path }: Pick<Page<Visit>, 'method' | 'path'>,
  deps: SettingsDeps,
  open: Open,
): ServerRoute {
  return {
    method,
    path,
    async handler(request, h) {
      if (method !== 'GET') checkSameOrigin(request.headers, deps.baseUrl)
      const answer = await open(request, deps.clock())
      const response = await write(request, h, answer, deps)
      for (const [name, value] of Object.entries(answer.headers ?? {})) response.header(name, value)
      const { session } = deps.cookies
      const own =
        answer.token === undefined
          ? []
          : [answer.token === null ? session.clear : session.set(answer.token)]
      for (const cookie of [...(answer.cookies ?? []), ...own]) {
        response.header('set-cookie', cookie, { append: true })
      }
      return response.header('cache-control', 'no-store')
    },
  }
}

async function answerPage<V extends Visit>(
  page: Page<V>,
  visit: V,
  deps: SettingsDeps,
  request: Request,
): Promise<FullAnswer> {
  try {
    return { ...(await page.handle(visit, deps)), visit }
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500) throw error
    if (visit.wantsJson || page.redraw === undefined) throw error
    const redrawn = await page.redraw(visit, error, deps)
    if (redrawn === undefined) throw error
    deps.log.info({ requestId: request.headers['x-request-id'], path: page.path }, error.code)
    return { status: error.status, page: redrawn, headers: error.headers, visit }
  }
}

async function write(
  request: Request,
  h: ResponseToolkit,
  { status, json, page, document, location, visit }: FullAnswer,
  { database }: SettingsDeps,
) {
  if (visit?.wantsJson) {
    if (json === undefined && (page !== undefined || document !== undefined)) {
      throw new Problem('not_acceptable', 'This is a page for people: accept text/html.')
    }
    if (json === undefined) return h.response().code(204)
    return h
      .response(JSON.stringify(json))
      .code(status ?? 200)
      .type(JSON_MEDIA_TYPE)
  }
  if (location !== undefined) return h.response().code(303).header('location', location)
  if (document !== undefined) return h.response(document).type(HTML_MEDIA_TYPE)
  const { session, csrfToken = '' } = visit ?? {}
  const isRead = request.method === 'get'
  const flash = isRead ? (session?.flash ?? null) : null
  if (session !== undefined && flash !== null) {
    await database.transaction((tx) => setFlash(tx, session.token, null))
  }
  const halt = session && (await findHalt(database, session))
  const drawn = page?.({ session, csrfToken, flash, halt }).text ?? ''
  return h
    .response(drawn)
    .code(status ?? 200)
    .type(HTML_MEDIA_TYPE)
}

/** The installation's before the account's own. */
async function findHalt({ read }: Database, { account }: Session) {
  const switches = await readKillSwitches(read, account.id)
  return switches.find(({ isOn }) => isOn)
}

const JSON_MEDIA_TYPE = 'application/json; charset=utf-8'
const HTML_MEDIA_TYPE = 'text/html; charset=utf-8'

/** Browsers name HTML; who sends JSON and names nothing wants JSON. */
export function wantsJson({ headers }: Pick<Request, 'headers'>): boolean {
  const accept = String(headers['accept'] ?? '')
  if (/text\/html/i.test(accept)) return false
  if (/application\/(?:problem\+)?json/i.test(accept)) return true
  return /^application\/json/i.test(String(headers['content-type'] ?? ''))
}

function visitOf(
  request: Request,
  fields: Fields,
  session: Session | undefined,
  now: Date,
  csrfToken: string,
): Visit {
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
