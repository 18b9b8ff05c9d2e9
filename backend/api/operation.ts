/**
 * An operation of the API maps a call to a response. Only routes.ts depends on the web framework;
 * `readOperation`, `listOperation` and `writeOperation` create operations.
 */

import type { Database } from '../database/database.ts'
import type { Idempotency } from '../idempotency/idempotency.ts'
import type { Caller } from './caller.ts'

export interface Call {
  readonly caller: Caller
  /** The path template of the contract, e.g. `/api/v1/debtors/{id}`. */
  readonly path: string
  /** The value of `{id}`; empty if the path has none. */
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
  /** In addition to those of every response; names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

export interface Services {
  readonly database: Database
  readonly idempotency: Idempotency
  /** Without a trailing slash. */
  readonly baseUrl: string
  readonly cursorKey: Buffer
}

export interface Operation {
  readonly operationId: string
  respond(call: Call, services: Services): Promise<Response>
}
