/** Signs deliveries according to Standard Webhooks, version 1: https://www.standardwebhooks.com. */
import { createHmac, randomBytes } from 'node:crypto'

const SECRET_PREFIX = 'whsec_'

/** The specification requires 24 to 64 bytes. */
const SECRET_BYTES = 32

export function createSigningSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64')
}

export interface WebhookToSign {
  /** The header `webhook-id`, which is the same for every attempt. */
  readonly id: string
  /** The header `webhook-timestamp`, the time of this attempt. */
  readonly timestampSeconds: number
  readonly body: Buffer
}

/**
 * Returns the header `webhook-signature`, with a signature for each secret. For a time after a rotation, the receiver
 * may know only one of the two secrets.
 */
export function signWebhook(webhook: WebhookToSign, secrets: readonly string[]): string {
  return secrets.map((secret) => signOnce(webhook, secret)).join(' ')
}

function signOnce({ id, timestampSeconds, body }: WebhookToSign, secret: string): string {
  // The key is the decoded text after the prefix, not the secret as people see it.
  const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64')
  const mac = createHmac('sha256', key).update(`${id}.${timestampSeconds}.`).update(body)
  return `v1,${mac.digest('base64')}`
}
