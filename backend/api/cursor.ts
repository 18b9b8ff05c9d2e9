/**
 * A cursor marks the last row of a page. It is valid only for the account, list, sort and filters for which it
 * was created. With any other combination, the list would silently skip rows, so the cursor is rejected.
 */
import assert from 'node:assert'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { Problem } from '../../shared/contract/problem.ts'
import type { Position } from '../lists/keyset.ts'
import { canonicalJson } from '../validation/json.ts'

export interface CursorScope {
  readonly accountId: string
  readonly operationId: string
  readonly sort: string
  readonly filters: Readonly<Record<string, unknown>>
}

const VERSION = 1
/** 128 bits cannot be guessed, and keep links short. */
const MAC_BYTES = 16

/** Signs with the first key. `verifyCursor` accepts all keys, so that cursors stay valid after a rotation of keys. */
export function signCursor(
  [key]: readonly Buffer[],
  scope: CursorScope,
  { value, id }: Position,
): string {
  assert(key !== undefined, 'There is no key to sign with')
  const payload = Buffer.from(JSON.stringify({ v: VERSION, k: [value, id] }))
  return Buffer.concat([payload, macOf(key, scope, payload)]).toString('base64url')
}

/** Throws `invalid_cursor` for a cursor that `signCursor` did not create with one of `keys` for this scope. */
export function verifyCursor(
  keys: readonly Buffer[],
  scope: CursorScope,
  cursor: string,
): Position {
  const bytes = Buffer.from(cursor, 'base64url')
  const payload = bytes.subarray(0, -MAC_BYTES)
  const sentMac = bytes.subarray(-MAC_BYTES)
  // Decoding ignores characters that are not base64url, so the cursor must be the exact encoding of its bytes.
  const isGenuine =
    bytes.toString('base64url') === cursor &&
    sentMac.length === MAC_BYTES &&
    keys.some((key) => timingSafeEqual(sentMac, macOf(key, scope, payload)))
  const position = isGenuine ? positionIn(payload) : undefined
  if (position !== undefined) return position
  throw new Problem(
    'invalid_cursor',
    'This cursor does not belong to these filters and this sort. Start again without a cursor.',
  )
}

function positionIn(payload: Buffer): Position | undefined {
  const content: { v: unknown; k: [string, string] } = JSON.parse(payload.toString())
  const [value, id] = content.k
  return content.v === VERSION ? { value, id } : undefined
}

function macOf(key: Buffer, scope: CursorScope, payload: Buffer): Buffer {
  const { accountId, operationId, sort, filters } = scope
  return createHmac('sha256', key)
    .update(canonicalJson([accountId, operationId, sort, filters]))
    .update('\n')
    .update(payload)
    .digest()
    .subarray(0, MAC_BYTES)
}
