/** Creates a signed sample delivery of an event type, with the data that the button "Send test event" sends. */
import { type EventType, isEventType } from '../events/event-types.ts'
import { withRevision } from '../events/events.ts'
import { sampleOf } from '../webhooks/samples.ts'
import { signWebhook } from '../webhooks/signature.ts'

/** The secret of the test vector in docs/webhooks.md. No endpoint has this secret. */
export const SAMPLE_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

const SAMPLE_ID = 'evt_01KAJZ3T4W8Q6F2Y5N7B9C1D3E'
const SAMPLE_TIME = '2026-11-21T10:15:00.000Z'

export interface EventSample {
  /** The headers that a receiver needs to verify the signature. */
  readonly headers: Readonly<Record<string, string>>
  /** The signed bytes, as text. */
  readonly body: string
}

/** Returns undefined for an unknown event type. */
export function eventSample(type: string): EventSample | undefined {
  return isEventType(type) ? signedSample(type) : undefined
}

function signedSample(type: EventType): EventSample {
  const event = {
    id: SAMPLE_ID,
    type,
    timestamp: SAMPLE_TIME,
    api_version: 'v1',
    account_id: 'acct_01KAJZ0M2P4R6T8V0X2Z4B6D8F',
    test: true,
    data: withRevision(sampleOf(type)),
  }
  const body = JSON.stringify(event, null, 2)
  const timestampSeconds = Date.parse(SAMPLE_TIME) / 1000
  const webhook = { id: SAMPLE_ID, timestampSeconds, body: Buffer.from(body) }
  return {
    headers: {
      'webhook-id': SAMPLE_ID,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': signWebhook(webhook, [SAMPLE_SECRET]),
    },
    body,
  }
}
