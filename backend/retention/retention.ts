/**
 * Applies the retention rules, most of which delete expired rows. Any number of backends may do this at the same time.
 * Debtors, invoices, payments, messages and the audit log are kept forever.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { startWorker, type Worker, type WorkerDeps } from '../background/worker.ts'
import type { Database } from '../database/database.ts'
import { DAY_MS, type RetentionRule, type RowKey, ruleByAge } from '../database/retention-rule.ts'
import { REMINDER_RETENTION } from '../reminders/retention.ts'
import { WEBHOOK_RETENTION } from '../webhooks/retention.ts'

const EVERY_MS = 600_000

/**
 * After each batch, retention pauses for as long as the batch took, but at most for this long. A batch usually takes
 * much less than a second, so retention uses at most half of the database's time.
 */
const PAUSE_MS_MAX = 1000

/** Known browsers are kept as long as browsers keep the cookie that identifies them. */
const BROWSER_KEPT_DAYS = 400

const RULES: readonly RetentionRule[] = [
  ...WEBHOOK_RETENTION,
  REMINDER_RETENTION,
  // A payment that is retried later is still recognized, because the payment itself stores the idempotency key.
  ruleByAge('idempotency_keys', {
    key: ['account_id', 'operation', 'key'],
    ageColumn: 'created_at',
    keptMs: 30 * DAY_MS,
  }),
  ruleByAge('key_usage', {
    key: ['key_id', 'hour', 'status_class'],
    ageColumn: 'hour',
    keptMs: 90 * DAY_MS,
  }),
  ruleByAge('key_operations', {
    key: ['key_id', 'hour', 'operation'],
    ageColumn: 'hour',
    keptMs: 7 * DAY_MS,
  }),
  ruleByAge('key_errors', {
    key: ['key_id', 'day', 'code'],
    ageColumn: 'day',
    keptMs: 90 * DAY_MS,
  }),
  // A row identifies the last report of a gateway, so that a repeated report is not counted twice. Gateways repeat an
  // unacknowledged report every few seconds, so an old row is no longer needed.
  ruleByAge('usage_reports', { key: ['gateway'], ageColumn: 'reported_at', keptMs: 7 * DAY_MS }),
  ruleByAge('sessions', { key: ['token_hash'], ageColumn: 'expires_at', keptMs: 0 }),
  ruleByAge('password_resets', { key: ['id'], ageColumn: 'expires_at', keptMs: DAY_MS }),
  ruleByAge('known_browsers', {
    key: ['token_hash', 'user_id'],
    ageColumn: 'last_login_at',
    keptMs: BROWSER_KEPT_DAYS * DAY_MS,
  }),
  ruleByAge('passkey_challenges', { key: ['challenge_hash'], ageColumn: 'expires_at', keptMs: 0 }),
  ruleByAge('login_guesses', { key: ['subject'], ageColumn: 'window_ends_at', keptMs: 0 }),
  // The audit log still records the invitation.
  ruleByAge('invitations', { key: ['id'], ageColumn: 'expires_at', keptMs: 30 * DAY_MS }),
  // After a day, the session in which the form was opened has ended, so a repeated submission issues no key.
  ruleByAge('key_submissions', { key: ['submission'], ageColumn: 'created_at', keptMs: DAY_MS }),
  // This rule comes before the rule for notices, because rows of the outbox reference notices.
  ruleByAge('mail_outbox', { key: ['id'], ageColumn: 'created_at', keptMs: 60 * DAY_MS }),
  ruleByAge('notices', { key: ['id'], ageColumn: 'created_at', keptMs: 90 * DAY_MS }),
  // These rows identify mails that are received twice. No mail server sends a mail again after this time.
  ruleByAge('inbound_mail', { key: ['digest'], ageColumn: 'received_at', keptMs: 90 * DAY_MS }),
]

export function startRetention({ database, clock, log }: WorkerDeps): Worker {
  return startWorker({
    name: 'retention',
    everyMs: EVERY_MS,
    log,
    database,
    async round(signal) {
      for (const rule of RULES) {
        // A rule that fails must not prevent the others from running.
        await applyRule(database, rule, clock(), signal).then(
          (count) => count > 0 && log.info({ rule: rule.name, count }, 'retention rule applied'),
          (error: unknown) => log.error({ err: error, rule: rule.name }, 'retention rule failed'),
        )
      }
      return undefined
    },
  })
}

export async function applyAllRetentionRules(database: Database, now: Date): Promise<void> {
  for (const rule of RULES) await applyRule(database, rule, now)
}

/**
 * Resolves with the number of rows to which the rule was applied. If `signal` is aborted, ends after the current batch
 * and its pause.
 */
async function applyRule(
  database: Database,
  { findExpired, applyTo }: RetentionRule,
  now: Date,
  signal?: AbortSignal,
): Promise<number> {
  let count = 0
  let last: RowKey | undefined
  while (!signal?.aborted) {
    const keys = await findExpired(database.read, now, last)
    if (keys.length === 0) break
    last = keys.at(-1)
    const from = performance.now()
    await database.transaction((tx) => applyTo(tx, keys))
    count += keys.length
    await delay(Math.min(PAUSE_MS_MAX, performance.now() - from))
  }
  return count
}
