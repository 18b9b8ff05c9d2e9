import { loadContract } from '../shared/contract/contract.ts'
import { runProcess } from '../shared/process/lifecycle.ts'
import type { Logger } from '../shared/process/log.ts'
import { createMetrics } from '../shared/process/metrics.ts'
import { startOperationsListener } from '../shared/process/operations-listener.ts'
import { SettingsError } from '../shared/process/settings.ts'
import { startTracing } from '../shared/process/tracing.ts'
import { startKeyExpiry } from './api-keys/key-expiry.ts'
import { BACKEND_SETTINGS, databaseUrl, deriveKey, describeMail, mailOptions } from './config.ts'
import { describeDatabase, isPostgres, openDatabase } from './database/open.ts'
import { startLedgerTotals } from './debtors/ledger-totals.ts'
import { renderedDocs } from './docs/rendered-docs.ts'
import { startOverdueEvents } from './invoices/overdue-events.ts'
import { createMailServices } from './mail/mail-services.ts'
import {
  createAttemptMetrics,
  createHandOverMetrics,
  createTransactionWaitMetrics,
  measureDatabase,
  measureQueues,
} from './metrics.ts'
import { type RemindersOptions, startReminders } from './reminders/reminders.ts'
import { startRetention } from './retention/retention.ts'
import { createBackend } from './server.ts'
import { startPasswordResets } from './sessions/password-reset.ts'
import { createSecretBox } from './webhooks/secret-box.ts'
import { createWebhooks } from './webhooks/webhooks.ts'

/** Calls must end this long before the drain timeout, so that there is time to close the database afterwards. */
const DRAIN_RESERVE_MS = 2_000
/** Late enough that rendering does not delay the calls that waited while the backend started. */
const RENDER_DOCS_AFTER_MS = 30_000

/** `url` is used only with PostgreSQL. Throws `SettingsError` if it is invalid. */
function describeDirectUrl(url: string | undefined, databaseUrl: string): string[] {
  if (url === undefined || !isPostgres(databaseUrl)) return []
  if (!isPostgres(url)) throw new SettingsError(['DATABASE_DIRECT_URL must be postgres://…'])
  return [
    `Migrations, exports, erasures and notifications use ${describeDatabase(url, 'DATABASE_DIRECT_URL')}.`,
  ]
}

await runProcess({
  name: 'backend',
  description:
    'The backend: stores accounts, keys, debtors, invoices, payments and messages, serves the gateways, and sends reminders and webhooks.',
  schema: BACKEND_SETTINGS,
  prefix: 'BACKEND_',
  // These settings have the same prefix, but belong to the gateway, which may share the environment.
  foreign: ['BACKEND_URLS', 'BACKEND_CONNECTIONS'],
  reloadable: ['GATEWAY_SECRET', 'KEY_PEPPER'],
  checkAndDescribe: (settings) => [
    `The database is ${describeDatabase(databaseUrl(settings))}.`,
    ...describeDirectUrl(settings.DATABASE_DIRECT_URL, databaseUrl(settings)),
    describeMail(settings),
  ],
  async start(settings, log) {
    // Several modules share these arrays: a reload replaces their elements.
    const gatewaySecrets = [...settings.GATEWAY_SECRET]
    const peppers = [...settings.KEY_PEPPER]
    const { BACKEND_SOCKET: socket } = settings
    const metrics = createMetrics('backend')
    const database = await openDatabase({
      url: databaseUrl(settings),
      directUrl: settings.DATABASE_DIRECT_URL,
      log,
      openedBy: 'backend',
      connectionsMax: settings.DATABASE_CONNECTIONS,
      transactionWaits: createTransactionWaitMetrics(metrics),
    })
    if (database.migrated.length > 0) log.info({ migrations: database.migrated }, 'migrated')
    const clock = () => new Date()
    measureDatabase(metrics, database)
    measureQueues(metrics, database, clock)
    const tracing = await startTracing({
      endpoint: settings.OTEL_EXPORTER_OTLP_ENDPOINT,
      share: settings.OTEL_TRACES_SAMPLER_ARG,
      service: 'backend',
      metrics,
      log,
    })
    // A lock prevents a second backend on a SQLite file.
    const isOnlyBackend = !isPostgres(databaseUrl(settings))
    const shared = { database, clock, log, isRehearsal: settings.REHEARSAL === 'on' }
    const webhooks = createWebhooks({
      ...shared,
      baseUrl: settings.BASE_URL,
      boxKeys: derivedKeys(settings, 'webhook secrets'),
      privateTargetPolicy: settings.WEBHOOK_PRIVATE_TARGETS,
      isOnlyBackend,
      onAttempt: createAttemptMetrics(metrics),
    })
    const onHandOver = createHandOverMetrics(metrics)
    const mailServices = createMailServices({ ...mailOptions(settings), ...shared, onHandOver })
    const backend = await createBackend({
      ...shared,
      host: settings.BACKEND_HOST,
      port: settings.BACKEND_PORT,
      socket,
      contract: loadContract(),
      baseUrl: settings.BASE_URL,
      gatewaySecrets,
      peppers,
      cursorKeys: derivedKeys(settings, 'cursor'),
      secondFactorCipher: createSecretBox(derivedKeys(settings, 'second factors')),
      webhooks: webhooks.services,
      mailServices,
      metrics,
      tracing,
      drainMsMax: Math.max(0, settings.DRAIN_TIMEOUT_MS - DRAIN_RESERVE_MS),
    })
    const operationsListener = await startOperationsListener({
      host: settings.BACKEND_OPERATIONS_HOST,
      port: settings.BACKEND_OPERATIONS_PORT,
      metrics,
      log,
      health: backend.health,
    })
    webhooks.start()
    mailServices.start()
    const work = startBackgroundWork({ ...mailServices, ...shared, isOnlyBackend })
    setTimeout(() => renderDocsAhead(settings.BASE_URL, log), RENDER_DOCS_AFTER_MS).unref()
    return {
      listening: {
        ...(socket === undefined ? { port: backend.port } : { socket }),
        operations_port: operationsListener.port,
      },
      reload(fresh) {
        gatewaySecrets.splice(0, gatewaySecrets.length, ...fresh.GATEWAY_SECRET)
        peppers.splice(0, peppers.length, ...fresh.KEY_PEPPER)
      },
      async drain() {
        await Promise.all([backend.drain(), webhooks.drain(), work.drain(), mailServices.close()])
        await tracing?.close()
        await operationsListener.close()
        await database.close()
      },
    }
  },
})

function renderDocsAhead(baseUrl: string, log: Logger): void {
  renderedDocs(baseUrl).catch((err: unknown) =>
    log.error({ err }, 'rendering the documentation failed'),
  )
}

function derivedKeys(settings: { readonly SECRET_BOX_KEY: readonly string[] }, purpose: string) {
  return settings.SECRET_BOX_KEY.map((key) => deriveKey(key, purpose))
}

/** In a rehearsal (`REHEARSAL=on`), only the command `reminders run` plans and sends reminders. */
function startBackgroundWork(deps: RemindersOptions & { readonly isRehearsal: boolean }) {
  const overdue = startOverdueEvents(deps)
  const totals = startLedgerTotals(deps)
  const keyExpiry = startKeyExpiry(deps)
  const passwordResets = startPasswordResets(deps)
  const retention = startRetention(deps)
  const reminders = deps.isRehearsal ? undefined : startReminders(deps)
  return {
    drain: () =>
      Promise.all([
        overdue.stop(),
        totals.stop(),
        keyExpiry.stop(),
        passwordResets.stop(),
        retention.stop(),
        reminders?.drain(),
      ]),
  }
}
