/**
 * Encrypts (seals) secrets for storage with AES-256-GCM. The ids of the owner are bound to the sealed secret as
 * associated data, so that a sealed secret that is copied to another row cannot be decrypted there. A sealed secret
 * contains the id of its key, so that it can still be decrypted after another key was added.
 */
import assert from 'node:assert'
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

export interface SecretBox {
  /** Returns `v1.<key id>.<nonce, ciphertext and tag in base64url>`. */
  seal(secret: string, owner: SecretOwner): string
  /** Throws if the version or the key is unknown, or if the sealed secret was altered or belongs to another owner. */
  open(sealed: string, owner: SecretOwner): string
}

export interface SecretOwner {
  readonly accountId: string
  /** The id of the record that contains the secret. */
  readonly recordId: string
}

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** `keys` have 32 bytes each. The first key encrypts; all keys can decrypt. */
export function createSecretBox(keys: readonly Buffer[]): SecretBox {
  const byId = new Map(keys.map((key) => [keyId(key), key]))
  const [encryptionKey] = keys
  assert(encryptionKey !== undefined, 'There is no key to encrypt with')
  return {
    seal(secret, owner) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, encryptionKey, nonce, { authTagLength: TAG_BYTES })
      cipher.setAAD(associatedData(owner))
      const parts = [nonce, cipher.update(secret, 'utf8'), cipher.final(), cipher.getAuthTag()]
      return `v1.${keyId(encryptionKey)}.${Buffer.concat(parts).toString('base64url')}`
    },
    open(sealed, owner) {
      const [version, id = '', text = ''] = sealed.split('.')
      if (version !== 'v1') {
        throw new Error('A stored secret was encrypted by another version of the program')
      }
      const key = byId.get(id)
      if (key === undefined) {
        throw new Error(
          `A stored secret was encrypted with key ${id}, which is not in SECRET_BOX_KEY`,
        )
      }
      const bytes = Buffer.from(text, 'base64url')
      const nonce = bytes.subarray(0, NONCE_BYTES)
      const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
      decipher.setAAD(associatedData(owner))
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
      const ciphertext = bytes.subarray(NONCE_BYTES, -TAG_BYTES)
      return Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('utf8')
    },
  }
}

/** Derives the id of a key from a hash, so that the id reveals nothing about the key. */
function keyId(key: Buffer): string {
  return createHash('sha256').update('key id').update(key).digest('hex').slice(0, 8)
}

function associatedData({ accountId, recordId }: SecretOwner): Buffer {
  return Buffer.from(`${accountId}\n${recordId}`)
}
