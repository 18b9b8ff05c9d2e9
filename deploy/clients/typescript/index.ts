export {
  createReceivablesClient,
  type ReceivablesClient,
  type ReceivablesOptions,
} from './client.ts'
export type { ListItem, ListPath, ListQuery } from './lists.ts'
export { ReceivablesError } from './receivables-error.ts'
export type { RetryOptions } from './retries.ts'
export type { components, operations, paths, webhooks } from './schema.ts'
export { verifyWebhook, type WebhookEvent, WebhookVerificationError } from './webhooks.ts'
