/** What a page of Settings answers, and how it is written: as HTML in its frame, or as JSON. */
import type { Request, ResponseObject, ResponseToolkit } from '@hapi/hapi'
import { Problem } from '../../../shared/contract/problem.ts'
import type { Database } from '../../database/database.ts'
import type { Html } from '../../html/html.ts'
import { type KillSwitch, readKillSwitches } from '../../reminders/kill-switch.ts'
import { type Session, setFlash } from '../../sessions/sessions.ts'
import type { Cookies } from './cookies.ts'

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

/** What is to be known of who asked. */
export interface Asker {
  readonly wantsJson: boolean
  readonly session: Session | undefined
  /** Of the session, else of the form before login. */
  readonly csrfToken: string
}

export interface FullAnswer extends Answer {
  readonly cookies?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  /** Undefined: sent to log in. */
  readonly asker?: Asker
}

/** With cookies and headers; never kept by anybody. */
export async function writeAnswer(
  request: Request,
  h: ResponseToolkit,
  answer: FullAnswer,
  { database, cookies: { session } }: { readonly database: Database; readonly cookies: Cookies },
): Promise<ResponseObject> {
  const response = await write(request, h, answer, database)
  for (const [name, value] of Object.entries(answer.headers ?? {})) response.header(name, value)
  const own =
    answer.token === undefined
      ? []
      : [answer.token === null ? session.clear : session.set(answer.token)]
  for (const cookie of [...(answer.cookies ?? []), ...own]) {
    response.header('set-cookie', cookie, { append: true })
  }
  return response.header('cache-control', 'no-store')
}

async function write(
  request: Request,
  h: ResponseToolkit,
  { status, json, page, document, location, asker }: FullAnswer,
  database: Database,
) {
  if (asker?.wantsJson) {
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
  const { session, csrfToken = '' } = asker ?? {}
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
