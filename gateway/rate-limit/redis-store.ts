/**
 * The connection to Redis, in any form of deployment, and the one script that runs there. Without a connection, script
 * calls fail immediately (in a cluster, unless the connection to the node is being opened). No script call that may
 * have been executed is sent again.
 */
import { lookup } from 'node:dns/promises'
import { readFileSync } from 'node:fs'
import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net'
import type { Writable } from 'node:stream'
import { Cluster, Command, Redis, type Result } from 'ioredis'
import type { RedisAddress, RedisLogin } from './redis-address.ts'
import { isErrorReply, RedisNotConnected, RedisTimeout } from './redis-errors.ts'
import { startStallTolerantTimeout } from './stall-tolerant-timeout.ts'

/** The timeout for one round trip to a server, such as opening a connection without TLS. */
const ROUND_TRIP_TIMEOUT_MS = 250
/**
 * If a host name has several addresses, each except the last has this time to accept the connection. Node's default is
 * longer than the timeout of the connection: if the first address did not respond, the others would never be tried.
 */
const ADDRESS_TIMEOUT_MS = 100
/** The timeout for logging in and then reading the state of the server: two round trips. */
const HANDSHAKE_TIMEOUT_MS = 2 * ROUND_TRIP_TIMEOUT_MS
/** How long a closing connection waits for Redis to close its side. */
const DISCONNECT_TIMEOUT_MS = 50
/** The time without traffic after which TCP probes whether the other side still responds. */
const KEEP_ALIVE_MS = 1_000
/**
 * The time between two attempts to connect. It grows with each failure. A random time of up to the minimum is added.
 */
const RECONNECT_MS_MIN = 50
const RECONNECT_MS_MAX = 250
/**
 * The time between two attempts to connect to a sentinel, to watch it for failovers. It can be longer than for Redis,
 * because the other sentinels report failovers as well.
 */
const SENTINEL_WATCH_RECONNECT_MS = 1_000
/** The maximum number of counters in one script call. Each takes a few µs, during which Redis is blocked. */
const COUNTERS_PER_SCRIPT_CALL_MAX = 256
/** In a cluster, a call needs two redirections if its slot is being moved, and a few more after a failover. */
const REDIRECTIONS_MAX = 6

/** With this argument, `disconnect` of ioredis connects again. */
const RECONNECT = true

declare module 'ioredis' {
  interface RedisCommander<Context> {
    consumeCalls(
      numberOfKeys: number,
      ...keysAndArguments: (string | number)[]
    ): Result<unknown, Context>
  }
}

/** PEM texts. Without a CA, the authorities that Node trusts are used. */
export interface RedisTls {
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
}

export interface RedisStoreOptions {
  readonly address: RedisAddress
  readonly tls: RedisTls
}

/** A *partition* is a part of Redis that fails as a whole: the single server, or one master of a cluster. */
export interface RedisStore {
  /** The maximum number of counters of one partition in one script call. */
  readonly countersPerScriptCallMax: number
  /** Returns the partition that has the counter of this name, as far as this process knows. */
  partitionOf(name: string): string
  /** Runs `consume.lua` at most once. Has no timeout. */
  consume(names: readonly string[], values: readonly (string | number)[]): Promise<unknown>
  /**
   * Reconnects if `error` is a `RedisTimeout`. Without this, a connection that a firewall has silently dropped would be
   * used for minutes. In a cluster, also refreshes the table of slots, after any error.
   */
  recover(partition: string, error: unknown): void
  /** `partition` is set if the error makes that partition unavailable. */
  onConnectionError(listener: (error: Error, partition?: string) => void): void
  /** Adds a listener that is called whenever the connection, or the cluster as a whole, becomes ready. */
  onReady(listener: () => void): void
  close(): void
}

export function connectRedis({ address, tls }: RedisStoreOptions): RedisStore {
  // ioredis has no option for this timeout. It does not affect connections to backends: each is opened to one address.
  setDefaultAutoSelectFamilyAttemptTimeout(ADDRESS_TIMEOUT_MS)
  return address.form === 'cluster' ? connectCluster(address, tls) : connectServer(address, tls)
}

function connectServer(
  address: Exclude<RedisAddress, { form: 'cluster' }>,
  tls: RedisTls,
): RedisStore {
  const redis = new Redis({ ...commonOptions(address, tls), ...locationOf(address, tls) })
  const partition = 'redis'
  let isClosed = false
  limitHandshake(redis)
  // If Redis rejects the database of the address, ioredis uses database 0. No script call is then sent, and the next
  // connection tries the database of the address again.
  let rejectedSelect: Error | undefined
  redis.on('connect', () => {
    rejectedSelect = undefined
  })
  redis.on('error', (error) => {
    if (isRejectedSelect(error)) rejectedSelect = error
  })
  redis.on('ready', () => {
    if (rejectedSelect !== undefined) redis.disconnect(RECONNECT)
  })
  // ioredis 6 stops permanently if `disconnect` is called while it queries the sentinels.
  redis.on('end', () => {
    if (!isClosed) setTimeout(() => redis.connect().catch(() => {}), RECONNECT_MS_MIN)
  })
  const watches =
    address.form === 'sentinel'
      ? watchSentinels(address, tls, {
          onFailover(host, port) {
            const { remoteAddress, remotePort } = redis.stream ?? {}
            if (remoteAddress !== host || remotePort !== port) redis.disconnect(RECONNECT)
          },
          async onMaster(host, port) {
            const addresses = await lookup(host, { all: true })
            const { remoteAddress, remotePort } = redis.stream ?? {}
            if (redis.status !== 'ready') return
            const isMaster = addresses.some(({ address }) => address === remoteAddress)
            if (!isMaster || remotePort !== port) redis.disconnect(RECONNECT)
          },
        })
      : []
  return {
    countersPerScriptCallMax: COUNTERS_PER_SCRIPT_CALL_MAX,
    partitionOf: () => partition,
    consume: (names, values) =>
      rejectedSelect === undefined
        ? redis.consumeCalls(names.length, ...names, ...values)
        : Promise.reject(new RedisNotConnected(rejectedSelect.message)),
    recover(_, error) {
      if (error instanceof RedisTimeout) redis.disconnect(RECONNECT)
    },
    onConnectionError(listener) {
      redis.on('error', (error) => listener(error, partition))
      redis.on('sentinelError', (error) => listener(error))
    },
    onReady: (listener) => void redis.on('ready', listener),
    close() {
      isClosed = true
      for (const connection of [redis, ...watches]) connection.disconnect()
    },
  }
}

interface SentinelListeners {
  /** Called when a sentinel reports a failover, with the address of the new master. */
  onFailover(host: string, port: number): void
  /** Called when a sentinel was connected, with the address of the master that it names. */
  onMaster(host: string, port: number): Promise<void>
}

/**
 * Watches the sentinels for failovers. Without this, a master that is cut off from the sentinels would continue to
 * count for this gateway, and its counts would be lost. (The `failoverDetector` of ioredis writes each failure of a
 * sentinel to standard error.)
 */
function watchSentinels(
  { sentinels, sentinelLogin, master, isTls }: Extract<RedisAddress, { form: 'sentinel' }>,
  tls: RedisTls,
  { onFailover, onMaster }: SentinelListeners,
): Redis[] {
  return sentinels.map((sentinel) => {
    const watch = new Redis({
      ...sentinel,
      ...sentinelLogin,
      ...(isTls ? { tls } : {}),
      enableReadyCheck: false,
      autoResubscribe: false,
      maxRetriesPerRequest: null,
      keepAlive: KEEP_ALIVE_MS,
      retryStrategy: () => SENTINEL_WATCH_RECONNECT_MS,
    })
    watch.on('error', () => {})
    watch.on('message', (_, message: string) => {
      // The message has the name of the master, its old host and port, and its new host and port.
      const [name, , , host = '', port] = message.split(' ')
      if (name === master) onFailover(host, Number(port))
    })
    watch.on('ready', () => {
      // Sentinels do not repeat the message of a failover that happened while this connection was broken.
      watch
        .call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', master)
        .then(async (named) => {
          if (!Array.isArray(named)) return
          const [host, port] = named.map(String)
          if (host !== undefined) await onMaster(host, Number(port))
        })
        .catch(() => {})
      watch.subscribe('+switch-master').catch(() => {})
    })
    return watch
  })
}

function locationOf(address: Exclude<RedisAddress, { form: 'cluster' }>, tls: RedisTls) {
  switch (address.form) {
    case 'server':
      return { host: address.host, port: address.port }
    case 'socket':
      return { path: address.path }
    case 'sentinel': {
      const { username, password } = address.sentinelLogin
      return {
        sentinels: [...address.sentinels],
        name: address.master,
        ...(username === undefined ? {} : { sentinelUsername: username }),
        ...(password === undefined ? {} : { sentinelPassword: password }),
        ...(address.isTls ? { enableTLSForSentinelMode: true, sentinelTLS: tls } : {}),
        sentinelCommandTimeout: ROUND_TRIP_TIMEOUT_MS,
        sentinelRetryStrategy: () => RECONNECT_MS_MAX,
      }
    }
  }
}

function connectCluster(
  address: Extract<RedisAddress, { form: 'cluster' }>,
  tls: RedisTls,
): RedisStore {
  const cluster = new Cluster([...address.nodes], {
    redisOptions: commonOptions(address, tls),
    // The offline queue is needed for nodes whose connection is being opened.
    enableOfflineQueue: true,
    maxRedirections: REDIRECTIONS_MAX,
    // ioredis must not retry: Redis may have executed a command whose connection was closed.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    clusterRetryStrategy: () => RECONNECT_MS_MAX,
    slotsRefreshTimeout: ROUND_TRIP_TIMEOUT_MS,
    // TLS needs the names of the nodes, so the connection itself resolves them.
    dnsLookup: (name, done) => done(null, name),
    scripts: { consumeCalls: CONSUME_SCRIPT },
  })
  // `node error` reports the reasons, and ioredis retries without limit.
  cluster.on('error', () => {})
  const nodes = new Map<string, Redis>()
  cluster.on('+node', (node: Redis) => {
    nodes.set(hostAndPortOf(node), node)
    limitHandshake(node)
    // Replicas are connected as well, so that a replica that takes over is already connected.
    node.connect().catch(() => {})
  })
  cluster.on('-node', (node: Redis) => {
    if (nodes.get(hostAndPortOf(node)) === node) nodes.delete(hostAndPortOf(node))
  })
  const partitionOf = (name: string) => cluster.slots[slotOf(name)]?.[0] ?? 'cluster'
  return {
    // A cluster runs a script only if all its counters are in one slot, and each counter may be in another slot.
    countersPerScriptCallMax: 1,
    partitionOf,
    async consume(names, values) {
      // In other states, ioredis would queue commands without limit.
      if (cluster.status !== 'ready') {
        throw new RedisNotConnected('the cluster is down, or none of its nodes responds')
      }
      corkForOneTurn(nodes.get(partitionOf(names[0] ?? ''))?.stream)
      return cluster.consumeCalls(names.length, ...names, ...values)
    },
    recover(partition, error) {
      // ioredis removes a node that is disconnected. The refresh of the slots adds the node again.
      if (error instanceof RedisTimeout) nodes.get(partition)?.disconnect()
      cluster.refreshSlotsCache()
    },
    // No partition is reported, because the node may be a replica, or may have lost its slots to one.
    onConnectionError: (listener) => void cluster.on('node error', (error) => listener(error)),
    onReady: (listener) => void cluster.on('ready', listener),
    close: () => cluster.disconnect(),
  }
}

function hostAndPortOf({ options: { host, port } }: Redis): string {
  return `${host}:${port}`
}

/**
 * Combines the script calls of one turn of the event loop into one write. Each script call of a cluster has one
 * counter: a separate write for each would take more CPU time than the rest of the script call.
 */
function corkForOneTurn(stream: Writable | undefined): void {
  if (stream === undefined || stream.writableCorked > 0) return
  stream.cork()
  process.nextTick(() => stream.uncork())
}

function slotOf(name: string): number {
  return new Command('get', [name]).getSlot() ?? 0
}

/**
 * Reconnects if the handshake with Redis takes too long after the connection was opened. ioredis itself has no such
 * limit.
 */
function limitHandshake(redis: Redis): void {
  let cancel = () => {}
  redis.on('connect', () => {
    cancel()
    cancel = startStallTolerantTimeout(HANDSHAKE_TIMEOUT_MS, () => redis.disconnect(RECONNECT))
  })
  for (const event of ['ready', 'close', 'end']) redis.on(event, () => cancel())
}

/** Whether Redis rejected the command with which a new connection selects its database. */
function isRejectedSelect(error: Error & { readonly command?: { readonly name: string } }) {
  return isErrorReply(error) && error.command?.name === 'select'
}

const CONSUME_SCRIPT = { lua: readFileSync(new URL('./consume.lua', import.meta.url), 'utf8') }

function commonOptions(
  { username, password, db, isTls }: RedisAddress & RedisLogin,
  tls: RedisTls,
) {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(isTls ? { tls } : {}),
    db,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: ADDRESS_TIMEOUT_MS + ROUND_TRIP_TIMEOUT_MS,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    keepAlive: KEEP_ALIVE_MS,
    retryStrategy: (attempt: number) =>
      Math.min(RECONNECT_MS_MIN * attempt, RECONNECT_MS_MAX) + Math.random() * RECONNECT_MS_MIN,
    // A server that replies with READONLY has become a replica. With 1, ioredis reconnects; with 2, it would also send
    // the command again.
    reconnectOnError: (error: Error) => (/^READONLY/.test(error.message) ? (1 as const) : false),
    enableAutoPipelining: false,
    scripts: { consumeCalls: CONSUME_SCRIPT },
  }
}
