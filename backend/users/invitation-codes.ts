/**
 * The codes of invitations that are mailed. A code is made of the invitation's id and a key, so that
 * the mail can be written, and written again, though only the code's hash is stored.
 */
import assert from 'node:assert'
import { createHmac } from 'node:crypto'
import { hashToken } from './tokens.ts'

export interface InvitationCodes {
  codeOf(invitationId: string): string
  /** The one whose hash this is: a key may have been rotated since. Undefined where none is. */
  findCode(invitationId: string, codeHash: string): string | undefined
}

/** `keys` are of 32 bytes each; the first makes new codes. */
export function createInvitationCodes(keys: readonly Buffer[]): InvitationCodes {
  const [first] = keys
  assert(first !== undefined, 'There is no key to make codes with')
  const make = (key: Buffer, id: string) => createHmac('sha256', key).update(id).digest('base64url')
  return {
    codeOf: (id) => make(first, id),
    findCode: (id, codeHash) =>
      keys.map((key) => make(key, id)).find((code) => hashToken(code) === codeHash),
  }
}
