/** Composes webhooks: the services for the Settings pages, and the delivery worker. */
import type { Logger } from '../../shared/process/log.ts'
import type { Database } from '../database/database.ts'
import type { AttemptDeps } from './attempt.ts'
import { startDeliveryWorker } from './delivery-worker.ts'
import type { EndpointDeps } from './endpoints.ts'
import type { Outcome } from './outcomes.ts'
import { createSecretBox } from './secret-box.ts'
import { createSender, type SenderOptions } from './sender.ts'
import { isLoopbackName } from './target-url.ts'

/** The dependencies of endpoints and test events. */
export interface WebhookServices extends AttemptDeps, EndpointDeps {}

export interface Webhooks {
  readonly services: WebhookServices
  /** Starts delivering due events. */
  start(): void
  /** Finishes or releases the attempts in progress. */
  drain(): Promise<void>
}

export interface WebhooksOptions extends SenderOptions {
  readonly database: Database
  readonly baseUrl: string
  /** The keys have 32 bytes each; the first one encrypts. */
  readonly boxKeys: readonly Buffer[]
  /** Whether no other backend delivers from this database. */
  readonly isOnly: boolean
  readonly clock: () => Date
  readonly log: Logger
  /** Receives each attempt, for metrics. */
  readonly onAttempt: (attempt: Outcome) => void
}

export function createWebhooks(options: WebhooksOptions): Webhooks {
  const { database, baseUrl, boxKeys, isOnly, privateTargets, clock, log } = options
  const { onAttempt } = options
  if (privateTargets === 'allow') {
    // Without a public address only people on this machine can set up a webhook.
    const level = isLoopbackName(new URL(baseUrl).hostname) ? 'info' : 'warn'
    log[level](
      'WEBHOOK_PRIVATE_TARGETS=allow: anyone who can set up a webhook can make this process call this ' +
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
