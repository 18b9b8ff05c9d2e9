import { type Counter, cachedFor, type Durations, type Metrics } from '../shared/process/metrics.ts'
import type { LastUsed } from './api-keys/last-used.ts'
import type { OpenDatabase } from './database/open.ts'
import type { ProblemResponsesOptions } from './http/problem-responses.ts'
import type { RequestMetrics } from './http/requests.ts'
import type { HandOverResult } from './mail/mail.ts'
import { IS_UNSENT } from './messages/cancel-messages.ts'
import type { Usage } from './usage/usage.ts'
import type { Passwords } from './users/passwords.ts'
import type { Outcome } from './webhooks/outcomes.ts'

/** How long the queues' metrics are cached, so that several scrapers do not cause more queries. */
const QUEUES_CACHED_MS = 15_000

export function createRequestMetrics(
  metrics: Metrics,
): RequestMetrics & Pick<ProblemResponsesOptions, 'countProblem'> {
  const calls = metrics.counter(
    'receivables_backend_calls_total',
    'Requests, by operation and status of the response.',
    ['operation', 'status'],
  )
  const durations = metrics.histogram(
    'receivables_backend_call_duration_seconds',
    'Time from the head of a request to the end of its response.',
    ['operation'],
  )
  const problems = metrics.counter(
    'receivables_backend_problems_total',
    'Error responses (problem documents), by status and code.',
    ['status', 'code'],
  )
  // Without this zero, the first bug would raise no alert: Prometheus sees no increase in a series that begins with 1.
  problems.inc({ status: 500, code: 'internal_error' }, 0)
  return {
    record(operation, status, seconds) {
      calls.inc({ operation, status })
      durations.of(operation).observe(seconds)
    },
    countProblem({ status, code }) {
      problems.inc({ status, code })
    },
  }
}

export function createTransactionWaitMetrics(metrics: Metrics): Durations {
  const waits = metrics.histogram(
    'receivables_backend_transaction_wait_seconds',
    'Wait for the writer (SQLite) or for a connection (PostgreSQL).',
  )
  return waits.of()
}

export function createAttemptMetrics(metrics: Metrics): (attempt: Outcome) => void {
  const attempts: Counter = metrics.counter(
    'receivables_backend_webhook_attempts_total',
    'Attempts to deliver webhooks, by outcome.',
    ['outcome'],
  )
  const durations = metrics.histogram(
    'receivables_backend_webhook_attempt_duration_seconds',
    'Duration of one attempt to deliver a webhook.',
  )
  return ({ result }) => {
    // The error is `aborted` if the backend drained during the attempt, or if the attempt did not begin, because the
    // lease of the delivery was too old. Neither says anything about the endpoint.
    const failure = result.error === 'aborted' ? 'cut_off' : 'failed'
    attempts.inc({ outcome: result.succeeded ? 'delivered' : failure })
    durations.of().observe(result.durationMs / 1000)
  }
}

export function createHandOverMetrics(metrics: Metrics): (result: HandOverResult) => void {
  const handOvers: Counter = metrics.counter(
    'receivables_backend_mails_total',
    'Attempts to hand over mail, by outcome.',
    ['outcome'],
  )
  return ({ outcome }) => handOvers.inc({ outcome })
}

export function measureDatabase(metrics: Metrics, database: OpenDatabase): void {
  metrics.total(
    'receivables_backend_transactions_total',
    'Transactions, by how they ended.',
    () => {
      const { committed, rolledBack, lost } = database.activity()
      return [
        ['committed', committed],
        ['rolled_back', rolledBack],
        ['lost', lost],
      ]
    },
    { labels: ['outcome'] },
  )
  metrics.gauge(
    'receivables_backend_transactions_waiting',
    'Transactions that wait for the writer or a connection.',
    () => database.activity().waiting,
  )
  metrics.gauge(
    'receivables_backend_database_fault',
    '1 after a transaction failed because of an error of the database, until the next commit; also 1 while commits wait for a synchronous standby that does not respond.',
    () => (database.fault === undefined ? 0 : 1),
    { aggregator: 'max' },
  )
  metrics.gauge(
    'receivables_backend_clock_fault',
    '1 if background work is paused, because the clock differs from the clock of PostgreSQL.',
    () => (database.clockFault === undefined ? 0 : 1),
    { aggregator: 'max' },
  )
  metrics.gauge(
    'receivables_backend_database_connections',
    'Connections to PostgreSQL.',
    () =>
      database.activity().pools.flatMap(({ name, busy, idle }) => [
        [name, 'busy', busy],
        [name, 'idle', idle],
      ]),
    { labels: ['pool', 'state'] },
  )
}

export interface InProcessQueues {
  readonly lastUsed: LastUsed
  readonly usage: Usage
  readonly passwords: Passwords
}

export function measureInProcessQueues(
  metrics: Metrics,
  { lastUsed, usage, passwords }: InProcessQueues,
): void {
  metrics.total(
    'receivables_backend_deferred_writes_total',
    'Batches of writes about the use of keys, each collected for a few seconds, by kind and outcome.',
    () => [
      ['last_used', 'written', lastUsed.writes.written],
      ['last_used', 'failed', lastUsed.writes.failed],
      ['usage', 'written', usage.writes.written],
      ['usage', 'failed', usage.writes.failed],
    ],
    { labels: ['kind', 'outcome'] },
  )
  metrics.gauge(
    'receivables_backend_password_hashes_waiting',
    'Password hashes, for logins and other operations, that are being computed or wait to be computed.',
    () => passwords.pending,
  )
  metrics.total(
    'receivables_backend_password_hashes_refused_total',
    'Logins and other operations that hash a password, rejected with 503 because too many waited.',
    () => passwords.rejected,
  )
}

/** Metrics of the queues in the database, for which every backend reports the same values. */
export function measureQueues(metrics: Metrics, database: DatabaseReader, clock: () => Date): void {
  const deliveries = cachedFor(QUEUES_CACHED_MS, () => readDeliveries(database, clock()))
  const messages = cachedFor(QUEUES_CACHED_MS, () => readMessages(database, clock()))
  metrics.gauge(
    'receivables_backend_webhook_deliveries',
    'Webhook deliveries that wait or are being sent.',
    async () => (await deliveries()).counts,
    { labels: ['status'], aggregator: 'max' },
  )
  metrics.gauge(
    'receivables_backend_webhook_oldest_due_seconds',
    'How long the oldest due webhook delivery has been due. Deliveries to an endpoint that is paused, or to which nothing is sent for a time because it was overloaded or unavailable, do not count.',
    async () => (await deliveries()).oldestDueSeconds,
    { aggregator: 'max' },
  )
  metrics.gauge(
    'receivables_backend_messages',
    'Messages that wait or are being sent.',
    async () => (await messages()).counts,
    { labels: ['status'], aggregator: 'max' },
  )
  metrics.gauge(
    'receivables_backend_message_oldest_due_seconds',
    'How long the oldest scheduled, approved or queued message has been due.',
    async () => (await messages()).oldestDueSeconds,
    { aggregator: 'max' },
  )
}

interface Queue {
  readonly counts: [status: string, count: number][]
  readonly oldestDueSeconds: number
}

async function readDeliveries({ read }: DatabaseReader, now: Date): Promise<Queue> {
  const at = now.toISOString()
  const counts = await read
    .selectFrom('webhook_deliveries')
    .select(({ fn }) => ['status', fn.countAll().as('count')])
    // Finished deliveries have no `run_at`.
    .where('run_at', 'is not', null)
    .groupBy('status')
    .execute()
  // A delivery may be sent only if its endpoint is enabled. If the endpoint was overloaded or unavailable, the delivery
  // may be sent only after `hold_until`.
  const oldest = await read
    .selectFrom('webhook_deliveries')
    .innerJoin('webhook_endpoints', 'webhook_endpoints.id', 'webhook_deliveries.endpoint_id')
    .select(({ fn }) => fn.min('webhook_deliveries.run_at').as('run_at'))
    .where('webhook_endpoints.status', '=', 'enabled')
    .where((eb) => eb.or([eb('hold_until', 'is', null), eb('hold_until', '<=', at)]))
    .where('webhook_deliveries.run_at', '<=', at)
    .executeTakeFirst()
  return queueOf(['pending', 'sending'], counts, oldest?.run_at, now)
}

const UNSENT_STATUSES = ['scheduled', 'awaiting_approval', 'approved', 'queued', 'sending'] as const

async function readMessages({ read }: DatabaseReader, now: Date): Promise<Queue> {
  const counts = await read
    .selectFrom('messages')
    .select(({ fn }) => ['status', fn.countAll().as('count')])
    .where(IS_UNSENT)
    .groupBy('status')
    .execute()
  const oldest = await read
    .selectFrom('messages')
    .select(({ fn }) => fn.min('scheduled_for').as('run_at'))
    // The condition on the status implies `IS_UNSENT`, which is needed only for its partial index.
    .where(IS_UNSENT)
    .where('status', 'in', ['scheduled', 'approved', 'queued'])
    .where('scheduled_for', '<=', now.toISOString())
    .executeTakeFirst()
  return queueOf(UNSENT_STATUSES, counts, oldest?.run_at, now)
}

type DatabaseReader = Pick<OpenDatabase, 'read'>

function queueOf(
  statuses: readonly string[],
  rows: readonly { readonly status: string; readonly count: number | string | bigint }[],
  oldestRunAt: string | null | undefined,
  now: Date,
): Queue {
  const byStatus = new Map(rows.map(({ status, count }) => [status, Number(count)]))
  const dueMs = oldestRunAt ? now.getTime() - Date.parse(oldestRunAt) : 0
  return {
    counts: statuses.map((status) => [status, byStatus.get(status) ?? 0]),
    oldestDueSeconds: Math.max(0, dueMs / 1000),
  }
}
