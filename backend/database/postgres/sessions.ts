import pg from 'pg'
import type { Logger } from '../../../shared/process/log.ts'
import type { Client, Primary } from './primary.ts'
import { configFor } from './servers.ts'
import { TYPES } from './types.ts'

export interface SessionOptions {
  readonly primary: Primary
  readonly log: Logger
  /** The name of the session, which the database shows to its operators. */
  readonly name: string
  /** How long to wait for a free or a new connection. */
  readonly waitMsMax: number
  readonly lockMsMax: number
  /** Makes the server reject writes in the session. Has no effect with a pooler. */
  readonly readOnly: boolean
  /**
   * Whether the duration of a statement, the idle time of a transaction, and the wait of a read for one of the readers'
   * connections (readers.ts) are limited. Other waits always have a limit: for a connection of the pool, for a new
   * connection, and for a lock.
   */
  readonly hasTimeLimits: boolean
  /**
   * Whether the address is that of a pooler, which may run each transaction on another connection to the server. Time
   * limits are then settings of the role, and no statement is kept prepared.
   */
  readonly hasPooler: boolean
}

export interface PoolOptions extends SessionOptions {
  readonly connectionsMax: number
}

/**
 * No statement of the service should take this long. A longer statement is aborted before its caller times out.
 */
const STATEMENT_MS_MAX = 8000

/**
 * If the result of a statement has not arrived after this time, the statement fails. For transactions, the driver
 * counts this time from the sending of the statement. For reads, `ReaderConnection` counts it from the last result on
 * the connection, which several reads share.
 */
export const SILENCE_MS_MAX = STATEMENT_MS_MAX + 1000

/**
 * How long a transaction may be idle. Code inside a transaction waits only for the database. The limit is shorter than
 * the time that other backends wait for a row: if a backend loses power inside a transaction, the rows that it locked
 * become free before the calls of other backends fail.
 */
const IDLE_IN_TRANSACTION_MS_MAX = 2_500

/**
 * How long the transactions of migrations, copies and snapshots may be idle. This limit replaces a shorter limit of the
 * role. With 0 (no limit), the role's limit would apply, because the driver does not send 0.
 */
const DAY_MS = 86_400_000

export function createPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    ...sessionConfig(options),
    Client: clientClass(options.primary),
    max: options.connectionsMax,
    idleTimeoutMillis: 60_000,
    ...(options.hasTimeLimits ? { query_timeout: SILENCE_MS_MAX } : {}),
    ...(options.hasPooler
      ? {}
      : {
          idle_in_transaction_session_timeout: options.hasTimeLimits
            ? IDLE_IN_TRANSACTION_MS_MAX
            : DAY_MS,
        }),
  })
  // Without listeners, a restart of the server would end this process.
  pool.on('error', (error) => options.log.warn({ err: error }, 'idle database connection lost'))
  pool.on('connect', (client) => {
    client.on('error', (error) => CONNECTION_ERRORS.set(client, error))
  })
  return pool
}

/**
 * The error that broke each connection. Statements that are sent later fail with another error, which does not name the
 * cause.
 */
const CONNECTION_ERRORS = new WeakMap<pg.ClientBase, Error>()

/** Returns the error that broke the connection of a client of the pool; undefined if it is not broken. */
export function connectionError(client: pg.ClientBase): Error | undefined {
  return CONNECTION_ERRORS.get(client)
}

/** Creates a client outside of the pool, for a connection that many reads share. The caller connects it. */
export function createClient(options: SessionOptions): Client {
  return new (clientClass(options.primary))(sessionConfig(options)) as Client
}

/**
 * Returns a client class. Its sessions are opened on the server that accepts writes, and closed when another
 * server accepts writes.
 */
function clientClass(primary: Primary) {
  return class extends pg.Client {
    constructor(config: pg.ClientConfig = {}) {
      super(configFor(primary.url, config))
      primary.track(this as pg.Client as Client, primary.url)
    }
  }
}

/**
 * An idle connection is probed after 30 seconds, before a firewall drops it. By default, the operating system sends the
 * first probe only after two hours.
 */
const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 30_000 }

function sessionConfig(options: SessionOptions): pg.ClientConfig {
  return {
    application_name: options.name,
    connectionTimeoutMillis: options.waitMsMax,
    ...KEEP_ALIVE,
    // Statements are sent without waiting for the results of earlier ones.
    pipeline: true,
    types: TYPES,
    ...(options.hasPooler ? {} : startupLimits(options)),
  }
}

/** Startup parameters, which a pooler rejects because its sessions are already open. */
function startupLimits({ lockMsMax, hasTimeLimits, readOnly }: SessionOptions): pg.ClientConfig {
  const settings = [
    hasTimeLimits
      ? // Sessions with time limits serve calls, which read few rows. If the planner overestimates their number, starting
        // parallel workers takes longer than reading the rows.
        '-c max_parallel_workers_per_gather=0'
      : // The role may have a time limit of its own, which this setting removes.
        '-c statement_timeout=0',
    ...(readOnly ? ['-c default_transaction_read_only=on'] : []),
  ]
  return {
    lock_timeout: lockMsMax,
    ...(hasTimeLimits ? { statement_timeout: STATEMENT_MS_MAX } : {}),
    options: settings.join(' '),
  }
}

/**
 * Opens a separate session whose statements have no time limits, e.g. for a migration or a snapshot. Throws if the URL
 * leads to PgBouncer: a pooler would pass a session-level lock to the next client of the session.
 */
export async function openSeparateSession(url: string, name: string): Promise<pg.Client> {
  try {
    return await connect(url, name, {
      // Overrides the defaults of the role.
      options: '-c statement_timeout=0 -c lock_timeout=0',
      // PgBouncer rejects this parameter, which shows that the URL leads to a pooler.
      idle_in_transaction_session_timeout: DAY_MS,
    })
  } catch (error) {
    if (!/unsupported startup parameter/.test(String(error))) throw error
    throw new Error(
      'This is the address of a pooler. Set DATABASE_DIRECT_URL to the address of PostgreSQL itself.',
      { cause: error },
    )
  }
}

/** Like `openSeparateSession`, but the session is closed when another server accepts writes. */
export async function connectToPrimary(primary: Primary, name: string): Promise<pg.Client> {
  const { url } = primary
  const client = await openSeparateSession(url, name)
  primary.track(client as Client, url)
  return client
}

async function connect(url: string, name: string, more: pg.ClientConfig = {}): Promise<pg.Client> {
  const config = {
    application_name: name,
    connectionTimeoutMillis: 10_000,
    types: TYPES,
    ...KEEP_ALIVE,
    ...more,
  }
  const client = new pg.Client(configFor(url, config))
  // Without a listener, a lost connection would end this process.
  client.on('error', () => {})
  await client.connect()
  return client
}

/**
 * Throws if the role has no time limits, or longer ones than those of sessions without a pooler. Sessions through a
 * pooler have only the limits of the role. Without limits, a transaction that hangs would keep its rows locked forever.
 */
export async function checkRoleLimits(url: string, name: string, lockMsMax: number): Promise<void> {
  const limits = new Map([
    ['statement_timeout', STATEMENT_MS_MAX],
    ['lock_timeout', lockMsMax],
    ['idle_in_transaction_session_timeout', IDLE_IN_TRANSACTION_MS_MAX],
  ])
  const client = await connect(url, name)
  try {
    const { rows } = await client.query<{ name: string; setting: string; role: string }>(
      `select name, setting, quote_ident(current_user) as role from pg_settings
        where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout')`,
    )
    const faulty = rows.filter(({ name, setting }) => {
      const ms = Number(setting)
      return ms === 0 || ms > (limits.get(name) ?? 0)
    })
    if (faulty.length === 0) return
    const statements = faulty.map(
      (row) => `alter role ${row.role} set ${row.name} = ${limits.get(row.name)};`,
    )
    throw new Error(
      `With a pooler (DATABASE_DIRECT_URL is set), the time limits must be settings of the role. Run these statements, then reconnect the pooler: ${statements.join(' ')}`,
    )
  } finally {
    await client.end()
  }
}
