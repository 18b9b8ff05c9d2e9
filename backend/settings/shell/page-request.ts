/** What a page of Settings declares, and the request that its handler receives. `page-route.ts` creates the routes. */
import type { Problem } from '../../../shared/contract/problem.ts'
import type { Logger } from '../../../shared/process/log.ts'
import type { ActionContext } from '../../accounts/audit.ts'
import type { Pepper } from '../../api-keys/peppers.ts'
import type { Database } from '../../database/database.ts'
import type { Transaction } from '../../database/tables.ts'
import type { Idempotency } from '../../idempotency/idempotency.ts'
import type { MailServices } from '../../mail/mail-services.ts'
import type { Flash } from '../../sessions/flash.ts'
import type { RelyingParty } from '../../sessions/relying-party.ts'
import type { SecretCipher } from '../../sessions/second-factor.ts'
import type { Session } from '../../sessions/sessions.ts'
import type { Usage } from '../../usage/usage.ts'
import type { MailedCodes } from '../../users/mailed-codes.ts'
import type { Passwords } from '../../users/passwords.ts'
import type { Cookies } from './cookies.ts'
import type { ExpectedFields, Fields } from './fields.ts'
import type { FlashName } from './flash-words.ts'
import type { PageResponse, RenderPage, Requester } from './response.ts'

export interface SettingsDeps {
  readonly database: Database
  readonly usage: Usage
  /** Writes the buffered times of the last use of keys to the database. */
  readonly flushLastUsed: () => Promise<void>
  readonly baseUrl: string
  readonly peppers: readonly Pepper[]
  readonly passwords: Passwords
  /** If it is absent, invitations are not mailed, and Admins must pass on the links themselves. */
  readonly invitationCodes?: MailedCodes | undefined
  /** If it is absent, passwords cannot be reset by mail. */
  readonly resetCodes?: MailedCodes | undefined
  /** Returns what would happen to a notice to an e-mail address. If it is absent, no notice is mailed. */
  readonly noticeRouteOf?: MailServices['noticeRouteOf'] | undefined
  /** Whether the mail server passes on customers' replies, so that they are logged and pause reminders. */
  readonly receivesReplies: boolean
  /** Undefined if the service has no host name. Passkeys then cannot be used. */
  readonly relyingParty: RelyingParty | undefined
  /** Encrypts the secrets of authenticator apps. */
  readonly secondFactorCipher: SecretCipher
  readonly cookies: Cookies
  readonly idempotency: Idempotency
  readonly clock: () => Date
  readonly log: Logger
}

export interface PageRequest extends Requester {
  readonly now: Date
  /** The IP address of the client, which the gateway reports. */
  readonly address: string | undefined
  readonly userAgent: string | undefined
  /** The value of the cookie `session`, valid or not. The session may be pending: it waits for the second factor. */
  readonly sessionToken: string | undefined
  /** The value of the cookie `browser`, valid or not. */
  readonly browserToken: string | undefined
  /** The `{id}` of the path; '' if the path has none. */
  readonly id: string
  readonly query: URLSearchParams
  readonly fields: Fields
}

export interface SessionRequest extends PageRequest {
  readonly session: Session
  readonly actionContext: ActionContext
  /**
   * Calls `perform` in a transaction, and resolves with its result. Also stores the message for the next page, unless
   * the client wants JSON. `flash` is the name of the message, or a function that returns the name and how the action
   * can be undone.
   */
  readonly performAction: <T>(
    flash: FlashName | ((result: T) => Flash & { readonly name: FlashName }),
    perform: (tx: Transaction) => Promise<T>,
  ) => Promise<T>
}

/** The methods of an edit: JSON clients use PUT; forms use POST, because they cannot send PUT. */
export const EDIT_METHODS = ['PUT', 'POST'] as const

export interface Page<R extends PageRequest> {
  readonly method: 'GET' | 'POST' | typeof EDIT_METHODS
  readonly path: string
  readonly expected?: ExpectedFields
  handle(pageRequest: R, deps: SettingsDeps): Promise<PageResponse>
  /** Renders the form again with the problem. If it is absent or resolves with undefined, an error page is shown. */
  rerender?(pageRequest: R, problem: Problem, deps: SettingsDeps): Promise<RenderPage | undefined>
}

/** A page that can be used without a session, such as the login page. */
export interface PublicPage extends Page<PageRequest> {}

export interface SessionPage extends Page<SessionRequest> {
  /** The message of the error page that Members receive. If it is absent, Members may use the page. */
  readonly adminsOnlyMessage?: string
  /**
   * Whether the password must have been entered recently, so that an abandoned session does not suffice. A function
   * decides by the fields of the request.
   */
  readonly needsRecentPassword?: true | ((fields: Fields) => boolean)
  /** Whether Admins may use the page before they have set up the second factor that the account requires. */
  readonly allowedWithoutSecondFactor?: true
}

/**
 * An action on many records is split into steps, one for each request. A step reads the records, changes records until
 * this much time has passed since the request began, and then reads the records again. By default, a gateway waits ten
 * seconds for a page. Half of the ten seconds is left for the second reading, which takes as long as the first.
 */
const STEP_MS = 5000
/** Without a minimum, no step would change anything on a machine so busy that reading takes all of `STEP_MS`. */
const STEP_MS_MIN = 1000

/** Must be called when the changes of a step begin. Returns a function that returns whether the changes must end. */
export function startTimeLimit(clock: () => Date, requestedAt: Date): () => boolean {
  const endsAtMs = Math.max(requestedAt.getTime() + STEP_MS, clock().getTime() + STEP_MS_MIN)
  return () => clock().getTime() > endsAtMs
}
