/** Webhooks as a part of the backend: what the Settings pages need of them, and what runs beside. */
import type { Logger } from '../../shared/process/log.ts'
import type { Database } from '../database/database.ts'
import type { AttemptDeps } from './attempt.ts'
import { startDeliveryWorker } from './delivery-worker.ts'
import type { EndpointDeps } from './endpoints.ts'
import type { Outcome } from './outcomes.ts'
import { createSecretBox } from './secret-box.ts'
import { createSender, type SenderOptions } from './sender.ts'

/** For whoever keeps endpoints and sends test events. */
export interface WebhookServices extends AttemptDeps, EndpointDeps {}

export interface Webhooks {
  readonly services: WebhookServices
  /** Begins to deliver what is due. */
  start(): void
  /** Finishes or gives back what is under way. */
  drain(): Promise<void>
}

export interface WebhooksOptions extends SenderOptions {
  readonly database: Database
  readonly baseUrl: string
  /** Of 32 bytes each; the first seals. */
  readonly boxKeys: readonly Buffer[]
  /** No other backend delivers from this database. */
  readonly isOnly: boolean
  readonly clock: () => Date
  readonly log: Logger
  /** Told of each attempt to deliver, for operators. */
  readonly onAttempt: (attempt: Outcome) => void
}

export function createWebhooks(options: WebhooksOptions): Webhooks {
  const { database, baseUrl, boxKeys, isOnly, privateTargets, clock, log } = options
  const { onAttempt } = options
  if (privateTargets === 'allow') {
    log.warn(
      'WEBHOOK_PRIVATE_TARGETS=allow: whoever can set up a webhook can make this process call this ' +
        'machine and its network. For development only.',
    )
  }
  const sender = createSender(options)
  const services = { sender, box: createSecretBox(boxKeys), clock, baseUrl, privateTargets }
  let running = async () => {}
  return {
    services,
    start() {
      const worker = startDeliveryWorker({ ...services, database, log, isOnly, onAttempt })
      running = worker.drain
    },
    async drain() {
      await running()
      await sender.close()
    },
  }
}
