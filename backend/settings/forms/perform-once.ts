/**
 * Performs the action of a form once, even if the form is sent twice, e.g. by a double click. Forms of such actions
 * contain an idempotency key; JSON clients send a key of their own.
 */
import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { Problem } from '../../../shared/contract/problem.ts'
import type { Transaction } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { Outcome } from '../../idempotency/idempotency.ts'
import { setFlash, type Undo } from '../../sessions/flash.ts'
import { rejectIfReadOnly } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import type { FlashName } from '../shell/flash-words.ts'
import { renderKeptFields } from '../shell/kept-form.ts'
import { renderHidden } from '../shell/layout.ts'
import type { SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { PageResponse } from '../shell/response.ts'

export const IDEMPOTENCY_KEY_FIELD = 'idempotency_key'
/** Visible ASCII, as in the API's header `Idempotency-Key`. */
const KEY_PATTERN = /^[\x21-\x7e]{1,255}$/

export interface OnceOptions {
  /**
   * The name of the operation, which is stored with the idempotency key. It must never change: otherwise a request
   * that is repeated after an upgrade of the service would be performed twice.
   */
  readonly operation: string
  readonly flash: FlashName
  /** Called after the action. Returns the request that undoes the action; undefined if it cannot be undone. */
  undo?(): Undo | undefined
  /** Returns the path of the page that follows. `id` is the id of the changed record. */
  location(id: string): string
  /**
   * Whether a request without an idempotency key is accepted. Set this only if a repeated request is rejected anyway,
   * because of the state after the first request.
   */
  readonly isKeyOptional?: boolean
}

/** Calls `perform` once for each idempotency key. `perform` resolves with the JSON of the changed record. */
export async function performOnce(
  request: SessionRequest,
  deps: SettingsDeps,
  { operation, flash, undo, location, isKeyOptional }: OnceOptions,
  perform: (tx: Transaction) => Promise<{ readonly id: string }>,
): Promise<PageResponse> {
  const { session, fields, wantsJson } = request
  rejectIfReadOnly(session)
  const performWithFlash = async (tx: Transaction) => {
    const changed = await perform(tx)
    if (!wantsJson) await setFlash(tx, session.token, flash, undo?.())
    return changed
  }
  if (isKeyOptional && !fields.has(IDEMPOTENCY_KEY_FIELD)) {
    const changed = await deps.database.transaction(performWithFlash)
    return { json: changed, location: location(changed.id) }
  }
  const outcome = await once(request, deps, operation, performWithFlash)
  return { json: JSON.parse(outcome.body), location: location(outcome.resourceId) }
}

export interface CreateOnceOptions {
  /** As in `OnceOptions`. */
  readonly operation: string
  /** The message of the page that follows a repeated request. */
  readonly repeatedFlash: FlashName
  /** Returns the path of the page that follows a repeated request. `id` is the id of the created record. */
  location(id: string): string
}

/**
 * Creates a record with a secret, such as an API key. Only the response to the first request, which `respond` returns,
 * shows the secret. A request that repeats an idempotency key is redirected to the page of the record. A request
 * without a key always creates a record. `create` resolves with the record: its `json` is stored and must not contain
 * the secret, which other members may contain.
 */
export async function createOnce<Created>(
  request: SessionRequest,
  deps: SettingsDeps,
  { operation, repeatedFlash, location }: CreateOnceOptions,
  create: (tx: Transaction) => Promise<{ readonly json: { readonly id: string } } & Created>,
  respond: (created: Created) => PageResponse,
): Promise<PageResponse> {
  const created: Created[] = []
  const createFirst = async (tx: Transaction) => {
    const record = await create(tx)
    created.push(record)
    return record.json
  }
  if (!request.fields.has(IDEMPOTENCY_KEY_FIELD)) {
    await deps.database.transaction(createFirst)
    return respond(committedOf(created))
  }
  const outcome = await once(request, deps, operation, createFirst)
  if (!outcome.replayed) return respond(committedOf(created))
  const { session, wantsJson } = request
  if (!wantsJson) {
    await deps.database.transaction((tx) => setFlash(tx, session.token, repeatedFlash))
  }
  return { json: JSON.parse(outcome.body), location: location(outcome.resourceId) }
}

/**
 * Returns the last created record: a transaction may be repeated after a conflict, and only its last attempt is
 * committed.
 */
function committedOf<Created>(created: readonly Created[]): Created {
  const last = created.at(-1)
  assert(last !== undefined)
  return last
}

function once(
  request: SessionRequest,
  { idempotency }: SettingsDeps,
  operation: string,
  perform: (tx: Transaction) => Promise<{ readonly id: string }>,
): Promise<Outcome> {
  const attempt = {
    accountId: request.session.account.id,
    operation,
    key: keyOf(request.fields),
    fingerprint: fingerprintOf(operation, request),
  }
  return idempotency.once(attempt, {
    originalIdMember: 'original_id',
    // `recall` could find a record whose idempotency key is no longer stored. Forms do not need this: a key is stored
    // for 30 days, longer than a session lasts, and a form of an earlier session is shown again instead of performed.
    recall: async () => undefined,
    prepare: () => async (tx) => {
      const changed = await perform(tx)
      return { resourceId: changed.id, body: JSON.stringify(changed) }
    },
  })
}

function keyOf(fields: Fields): string {
  const key = fields.text(IDEMPOTENCY_KEY_FIELD)
  if (KEY_PATTERN.test(key)) return key
  const isMissing = key === ''
  throw new Problem(
    isMissing ? 'idempotency_key_required' : 'idempotency_key_invalid',
    `Send an ${IDEMPOTENCY_KEY_FIELD} of 1 to 255 visible ASCII characters, so that a repeated request is not performed twice.`,
  )
}

function fingerprintOf(operation: string, { id, fields }: SessionRequest): string {
  const sent = enteredOf(fields).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([operation, id, sent]))
    .digest('base64url')
}

/**
 * Returns the fields without the idempotency key. `entries` also omits the CSRF token, the user and secrets: a repeated
 * request may contain other values of these.
 */
function enteredOf(fields: Fields) {
  return fields.entries().filter(([name]) => name !== IDEMPOTENCY_KEY_FIELD)
}

/**
 * A form that is shown again keeps its idempotency key, because the action may have been performed already, before the
 * user logged in again.
 */
export function renderIdempotencyKey(entered: Fields): Html {
  return renderHidden(IDEMPOTENCY_KEY_FIELD, entered.text(IDEMPOTENCY_KEY_FIELD) || randomUUID())
}

/** Renders the idempotency key and all entered fields as hidden fields, for a page that sends the form again. */
export function renderEntered(fields: Fields): Html {
  return html`${renderIdempotencyKey(fields)}${renderKeptFields(enteredOf(fields))}`
}
