/** Standard Webhooks, version 1: https://www.standardwebhooks.com. */
import { createHmac, randomBytes } from 'node:crypto'

const SECRET_PREFIX = 'whsec_'

/** The specification asks for 24 to 64. */
const SECRET_BYTES = 32

export function mintSigningSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64')
}

export interface SignedMessage {
  /** `webhook-id`: the same on every attempt. */
  readonly id: string
  /** `webhook-timestamp`: of this attempt. */
  readonly timestampSeconds: number
  /** The very bytes that are sent. */
  readonly body: Buffer
}

/** `webhook-signature`: one signature a secret, so that a receiver may know either. */
export function signMessage(message: SignedMessage, secrets: readonly string[]): string {
  return secrets.map((secret) => signOnce(message, secret)).join(' ')
}

function signOnce({ id, timestampSeconds, body }: SignedMessage, secret: string): string {
  // The key is what follows the prefix, decoded: not the text that people see.
  const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64')
  const mac = createHmac('sha256', key).update(`${id}.${timestampSeconds}.`).update(body)
  return `v1,${mac.digest('base64')}`
}
