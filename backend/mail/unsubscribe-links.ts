/**
 * An unsubscribe link contains an account and an address in encrypted form, so that logs show no address. The first key
 * encrypts new links; a link is valid as long as its key is configured. An account and an address have the same link
 * until another key becomes the first, so that a reminder does not change when it is rendered again.
 */
import assert from 'node:assert'
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'

export interface Subscription {
  readonly accountId: string
  readonly address: string
}

export interface UnsubscribeLinks {
  linkFor(subscription: Subscription): string
  /** Returns undefined if the token is incomplete, or was not encrypted with one of the keys. */
  open(token: string): Subscription | undefined
}

export const UNSUBSCRIBE_PATH = '/mail/unsubscribe'

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** Much longer than any token with an id and the longest address. */
const TOKEN_CHARS_MAX = 600

/** `keys` have 32 bytes each. */
export function createUnsubscribeLinks(baseUrl: string, keys: readonly Buffer[]): UnsubscribeLinks {
  const [encryptionKey] = keys
  assert(encryptionKey !== undefined, 'There is no key to encrypt with')
  return {
    linkFor({ accountId, address }) {
      const token = encrypt(encryptionKey, `${accountId}\n${address}`)
      return `${baseUrl}${UNSUBSCRIBE_PATH}/${token}`
    },
    open(token) {
      if (token.length > TOKEN_CHARS_MAX || !/^[\w-]+$/.test(token)) return undefined
      const encrypted = Buffer.from(token, 'base64url')
      // Base64url can encode the same bytes in several ways; only the canonical encoding is valid.
      if (encrypted.toString('base64url') !== token) return undefined
      const text = keys.map((key) => decrypt(key, encrypted)).find((each) => each !== undefined)
      const [accountId, address] = text?.split('\n') ?? []
      return accountId === undefined || address === undefined ? undefined : { accountId, address }
    },
  }
}

/** The nonce is derived from the text, so that the same nonce is never used for two different texts. */
function encrypt(key: Buffer, text: string): string {
  const nonce = createHmac('sha256', key).update(`nonce\n${text}`).digest().subarray(0, NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
  const parts = [nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]
  return Buffer.concat(parts).toString('base64url')
}

function decrypt(key: Buffer, encrypted: Buffer): string | undefined {
  if (encrypted.length <= NONCE_BYTES + TAG_BYTES) return undefined
  const nonce = encrypted.subarray(0, NONCE_BYTES)
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
  decipher.setAuthTag(encrypted.subarray(-TAG_BYTES))
  try {
    const text = decipher.update(encrypted.subarray(NONCE_BYTES, -TAG_BYTES))
    return Buffer.concat([text, decipher.final()]).toString('utf8')
  } catch {
    return undefined
  }
}
