import type { ClaimedDelivery } from './deliveries.ts'
import type { Outcome } from './outcomes.ts'
import type { SecretBox } from './secret-box.ts'
import type { AttemptResult, Sender } from './sender.ts'
import { signWebhook } from './signature.ts'

export interface AttemptDeps {
  readonly sender: Sender
  readonly secretBox: SecretBox
  readonly clock: () => Date
  /** The public URL of the service, which the `User-Agent` contains. */
  readonly baseUrl: string
}

/**
 * Sends a delivery once, and returns the outcome, even if the receiver fails. After `startBefore`, sends nothing: the
 * outcome then has the error `aborted`. Throws only if a secret of the endpoint cannot be decrypted.
 */
export async function attemptDelivery(
  delivery: ClaimedDelivery,
  startBefore: Date,
  { sender, secretBox, clock, baseUrl }: AttemptDeps,
): Promise<Outcome> {
  const startedAt = clock()
  const body = Buffer.from(delivery.body)
  const id = delivery.event_id
  const timestampSeconds = Math.floor(startedAt.getTime() / 1000)
  const secrets = decryptSecrets(delivery, secretBox, startedAt)
  const requestHeaders = {
    'content-type': 'application/json',
    'user-agent': `Receivables-Webhooks/1 (+${baseUrl}/docs)`,
    'webhook-id': id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signWebhook({ id, timestampSeconds, body }, secrets),
  }
  // An attempt that starts later could be in progress when another backend claims the delivery.
  const result =
    startedAt > startBefore
      ? NOT_STARTED
      : await sender.send({ url: delivery.url, headers: requestHeaders, body })
  return { delivery, requestHeaders, result, startedAt, endedAt: clock() }
}

const NOT_STARTED: AttemptResult = {
  succeeded: false,
  error: 'aborted',
  statusCode: null,
  responseHeaders: null,
  responseBody: null,
  durationMs: 0,
}

function decryptSecrets(delivery: ClaimedDelivery, secretBox: SecretBox, now: Date): string[] {
  const owner = { accountId: delivery.account_id, recordId: delivery.endpoint_id }
  const { secret, old_secret, old_secret_expires_at } = delivery
  const isOldValid = old_secret_expires_at !== null && old_secret_expires_at > now.toISOString()
  const encrypted = old_secret !== null && isOldValid ? [secret, old_secret] : [secret]
  return encrypted.map((sealed) => secretBox.open(sealed, owner))
}
