/** The backend process: composes the parts and runs them until a signal. */
import { loadContract } from '../shared/contract.ts'
import { runProcess } from '../shared/lifecycle.ts'
import { listenForOperations } from '../shared/operations.ts'
import { BACKEND_SETTINGS, databaseUrl, deriveKey } from './config.ts'
import { openDatabase } from './database/open.ts'
import { createBackend } from './server.ts'

await runProcess({
  name: 'backend',
  description: 'Keeps accounts, keys, debtors, invoices, payments and messages; serves gateways.',
  schema: BACKEND_SETTINGS,
  prefix: 'BACKEND_',
  // The gateway's, which may be in the same environment.
  foreign: ['BACKEND_URLS'],
  async start(settings, log) {
    const database = await openDatabase({ url: databaseUrl(settings), log, user: 'backend' })
    if (database.migrated.length > 0) log.info({ migrations: database.migrated }, 'migrated')
    const backend = await createBackend({
      host: settings.BACKEND_HOST,
      port: settings.BACKEND_PORT,
      database,
      contract: loadContract(),
      baseUrl: settings.BASE_URL,
      gatewaySecrets: settings.GATEWAY_SECRET,
      peppers: settings.KEY_PEPPER,
      cursorKey: deriveKey(settings.SECRET_BOX_KEY, 'cursor'),
      clock: () => new Date(),
      log,
    })
    const operations = await listenForOperations(
      { host: settings.BACKEND_OPERATIONS_HOST, port: settings.BACKEND_OPERATIONS_PORT },
      backend.health,
    )
    return {
      listening: { port: backend.port, operations_port: operations.port },
      async drain() {
        await backend.drain()
        await operations.close()
        await database.close()
      },
    }
  },
})
