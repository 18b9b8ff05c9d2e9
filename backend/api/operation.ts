/**
 * An operation of the API maps a call to a response. Of this folder, only routes.ts depends on the web framework.
 * `readOperation`, `listOperation` and `writeOperation` create operations.
 */

import type { Database } from '../database/database.ts'
import type { Idempotency } from '../idempotency/idempotency.ts'
import type { Caller } from './caller.ts'

export interface Call {
  readonly caller: Caller
  /** The path template of the contract, e.g. `/api/v1/debtors/{id}`. */
  readonly path: string
  /** The value of `{id}`; empty if the path has no `{id}`. */
  readonly id: string
  /** The raw query, without the question mark. */
  readonly query: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly payload: Uint8Array
  readonly now: Date
}

export interface Response {
  readonly status: 200 | 201
  readonly body: string
  /** Headers in addition to those of every response, with names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

export interface Services {
  readonly database: Database
  readonly idempotency: Idempotency
  /** The public URL of the service, without a trailing slash. */
  readonly baseUrl: string
  /** The keys for the cursors of lists: the first signs, and all verify. */
  readonly cursorKeys: readonly Buffer[]
}

/**
 * What is known of a call before its key has been checked: the account, from the principal (which a backend has
 * signed), and the object, from the path.
 */
export interface Target {
  readonly accountId: string
  /** The value of `{id}`; empty if the path has no `{id}`. */
  readonly id: string
  readonly now: Date
}

/** Completes the response after `begin` has started to read. */
export type Finish = (call: Call) => Promise<Response>

export type Operation =
  | {
      readonly operationId: string
      respond(call: Call, services: Services): Promise<Response>
    }
  | {
      readonly operationId: string
      /** Begins to read while the key is checked. If the key is rejected, the result is discarded. */
      begin(target: Target, database: Database): Finish
    }
