/** Creates the delivery worker, and the services with which the pages of Settings manage webhooks. */
import type { Logger } from '../../shared/process/log.ts'
import type { Database } from '../database/database.ts'
import type { AttemptDeps } from './attempt.ts'
import { startDeliveryWorker } from './delivery-worker.ts'
import type { EndpointDeps } from './endpoints.ts'
import type { Outcome } from './outcomes.ts'
import { createSecretBox } from './secret-box.ts'
import { createSender, type SenderOptions } from './sender.ts'
import { isLoopbackHost } from './target-url.ts'

export interface WebhookServices extends AttemptDeps, EndpointDeps {}

export interface Webhooks {
  readonly services: WebhookServices
  start(): void
  /** Drains the worker, and then aborts test events that are being sent. */
  drain(): Promise<void>
}

export interface WebhooksOptions extends SenderOptions {
  readonly database: Database
  readonly baseUrl: string
  /** The keys that encrypt the stored signing secrets of endpoints, see `createSecretBox`. */
  readonly boxKeys: readonly Buffer[]
  /**
   * Whether this is the only backend that delivers webhooks from this database. If it is, it sends the deliveries of a
   * killed process at once, instead of when their leases expire.
   */
  readonly isOnlyBackend: boolean
  readonly clock: () => Date
  readonly log: Logger
  /** Called after each attempt of the worker, for metrics. `sendTestEvent` does not call it. */
  readonly onAttempt: (attempt: Outcome) => void
}

export function createWebhooks(options: WebhooksOptions): Webhooks {
  const { database, baseUrl, boxKeys, isOnlyBackend, privateTargetPolicy, clock, log } = options
  const { onAttempt } = options
  if (privateTargetPolicy === 'allow') {
    // With a loopback address as the base URL, only people on this machine are expected to use the service.
    const level = isLoopbackHost(new URL(baseUrl).hostname) ? 'info' : 'warn'
    log[level](
      'WEBHOOK_PRIVATE_TARGETS=allow: anyone who can create a webhook endpoint can make this process send ' +
        'requests to this machine and its network. Use this only for development.',
    )
  }
  const sender = createSender(options)
  const services = {
    sender,
    secretBox: createSecretBox(boxKeys),
    clock,
    baseUrl,
    privateTargetPolicy,
  }
  let drainWorker = async () => {}
  return {
    services,
    start() {
      const worker = startDeliveryWorker({ ...services, database, log, isOnlyBackend, onAttempt })
      drainWorker = worker.drain
    },
    async drain() {
      await drainWorker()
      await sender.close()
    },
  }
}
