/**
 * Encrypts secrets at rest with AES-256-GCM, so that the service can read them again. The owner of a secret
 * is authenticated with it, so that a sealed secret copied to another row cannot be decrypted there. Each
 * sealed secret contains the id of its key, so that an old key still decrypts its secrets after a new key
 * was added.
 */
import assert from 'node:assert'
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

export interface SecretBox {
  /** Returns `v1.<key id>.<nonce, ciphertext and tag in base64url>`. */
  seal(secret: string, owner: SecretOwner): string
  /** Throws if the box lacks the key, or if the sealed text belongs to another owner. */
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

/** `keys` have 32 bytes each; the first one encrypts. */
export function createSecretBox(keys: readonly Buffer[]): SecretBox {
  const byId = new Map(keys.map((key) => [keyId(key), key]))
  const [sealing] = keys
  assert(sealing !== undefined, 'There is no key to seal with')
  return {
    seal(secret, owner) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, sealing, nonce, { authTagLength: TAG_BYTES })
      cipher.setAAD(associatedData(owner))
      const parts = [nonce, cipher.update(secret, 'utf8'), cipher.final(), cipher.getAuthTag()]
      return `v1.${keyId(sealing)}.${Buffer.concat(parts).toString('base64url')}`
    },
    open(sealed, owner) {
      const [version, id = '', text = ''] = sealed.split('.')
      const key = byId.get(id)
      if (version !== 'v1' || key === undefined) {
        throw new Error(`A stored secret was sealed with key ${id}, which SECRET_BOX_KEY is not`)
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

/** The id is derived from a hash, so that it reveals nothing about the key. */
function keyId(key: Buffer): string {
  return createHash('sha256').update('key id').update(key).digest('hex').slice(0, 8)
}

function associatedData({ accountId, recordId }: SecretOwner): Buffer {
  return Buffer.from(`${accountId}\n${recordId}`)
}
