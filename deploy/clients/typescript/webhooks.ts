import { Webhook, WebhookVerificationError } from 'standardwebhooks'
import type { webhooks } from './schema.ts'

export { WebhookVerificationError }

/**
 * An event, whose `type` determines its other members. Ignore types that you do not know, because new types
 * are added.
 */
export type WebhookEvent = {
  [Type in keyof webhooks]: webhooks[Type]['post']['requestBody']['content']['application/json']
}[keyof webhooks]

/**
 * Returns the event if its signature is valid and its timestamp differs from now by at most five minutes.
 * Otherwise throws a `WebhookVerificationError`: respond 400. Throws another `Error` if the secret is malformed.
 *
 * @param body The bytes as they were received. JSON that a framework has parsed is not sufficient.
 * @param headers The headers of the request, as Node or the Fetch API represents them.
 * @param secret The signing secret of the endpoint, including `whsec_`.
 */
export function verifyWebhook(
  body: Uint8Array | string,
  headers: Headers | Readonly<Record<string, string | string[] | undefined>>,
  secret: string,
): WebhookEvent {
  const pairs = headers instanceof Headers ? headers : Object.entries(headers)
  const given = Object.fromEntries([...pairs].map(([name, value]) => [name, String(value)]))
  const payload = typeof body === 'string' ? body : Buffer.from(body)
  // A file with a secret often ends with a line break.
  const webhook = new Webhook(secret.trim())
  // The service has signed the body, and its contract guarantees this type.
  return webhook.verify(payload, given) as WebhookEvent
}
