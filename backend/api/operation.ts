/**
 * An operation of the API as the routes see it: a call in, an answer out. Nothing beyond routes.ts
 * knows the web framework; `readOperation`, `listOperation` and `writeOperation` make these.
 */

import type { Database } from '../database/database.ts'
import type { Idempotency } from '../idempotency/idempotency.ts'
import type { Caller } from './caller.ts'

export interface Call {
  readonly caller: Caller
  /** The path template of the contract, e.g. `/api/v1/debtors/{id}`. */
  readonly path: string
  /** What stands for `{id}`; empty where the path has none. */
  readonly id: string
  /** Raw text after the question mark. */
  readonly query: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly payload: Uint8Array
  readonly now: Date
}

export interface Answer {
  readonly status: 200 | 201
  readonly body: string
  /** Beyond those that every answer has, in lower case. */
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
  answer(call: Call, services: Services): Promise<Answer>
}
