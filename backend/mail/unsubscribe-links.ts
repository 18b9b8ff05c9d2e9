/**
 * Unsubscribe links. A link contains an account and an address in encrypted form, so that logs show no address.
 * It never expires. An account and an address always have the same link, so that a text does not change when it
 * is written again.
 */
import assert from 'node:assert'
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'

export interface Subscription {
  readonly accountId: string
  readonly address: string
}

export interface UnsubscribeLinks {
  linkFor(subscription: Subscription): string
  /** Returns undefined if the token is incomplete or was not created by this service. */
  open(token: string): Subscription | undefined
}

export const UNSUBSCRIBE_PATH = '/mail/unsubscribe'

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** Much longer than any token with an id and the longest address. */
const TOKEN_CHARS_MAX = 600

/** `keys` have 32 bytes each. The first one encrypts new links; all of them can decrypt links. */
export function createUnsubscribeLinks(baseUrl: string, keys: readonly Buffer[]): UnsubscribeLinks {
  const [sealing] = keys
  assert(sealing !== undefined, 'There is no key to encrypt with')
  return {
    linkFor({ accountId, address }) {
      const token = seal(sealing, `${accountId}\n${address}`)
      return `${baseUrl}${UNSUBSCRIBE_PATH}/${token}`
    },
    open(token) {
      if (token.length > TOKEN_CHARS_MAX || !/^[\w-]+$/.test(token)) return undefined
      const sealed = Buffer.from(token, 'base64url')
      // Base64url can encode the same bytes in several ways; only the canonical encoding is valid.
      if (sealed.toString('base64url') !== token) return undefined
      const text = keys.map((key) => open(key, sealed)).find((opened) => opened !== undefined)
      const [accountId, address] = text?.split('\n') ?? []
      return accountId === undefined || address === undefined ? undefined : { accountId, address }
    },
  }
}

/** The nonce is derived from the text, so that the same nonce is never used for two different texts. */
function seal(key: Buffer, text: string): string {
  const nonce = createHmac('sha256', key).update(`nonce\n${text}`).digest().subarray(0, NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
  const parts = [nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]
  return Buffer.concat(parts).toString('base64url')
}

function open(key: Buffer, sealed: Buffer): string | undefined {
  if (sealed.length <= NONCE_BYTES + TAG_BYTES) return undefined
  const nonce = sealed.subarray(0, NONCE_BYTES)
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
  try {
    const text = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES))
    return Buffer.concat([text, decipher.final()]).toString('utf8')
  } catch {
    return undefined
  }
}
