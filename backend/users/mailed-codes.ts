/**
 * The codes of mailed invitations and password resets. A code is derived from a key and the id of the invitation or
 * reset, so that the mail can be written again although only the code's hash is stored.
 */
import assert from 'node:assert'
import { createHmac } from 'node:crypto'
import { hashToken } from './tokens.ts'

export interface MailedCodes {
  codeOf(id: string): string
  /** Returns the code with this hash, even if its key is no longer the first one; undefined if no key generates it. */
  findCode(id: string, codeHash: string): string | undefined
}

/** `keys` have 32 bytes each. The first key generates new codes. */
export function createMailedCodes(keys: readonly Buffer[]): MailedCodes {
  const [first] = keys
  assert(first !== undefined, 'There is no key from which to derive codes')
  const make = (key: Buffer, id: string) => createHmac('sha256', key).update(id).digest('base64url')
  return {
    codeOf: (id) => make(first, id),
    findCode: (id, codeHash) =>
      keys.map((key) => make(key, id)).find((code) => hashToken(code) === codeHash),
  }
}
