/**
 * The connection to Redis in whichever form it is run, and the one script that is asked of it. Nothing
 * is queued while a connection is away and nothing is sent twice: a resent spend would count a call
 * double.
 */
import { readFileSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { Cluster, Command, Redis, ReplyError, type Result } from 'ioredis'
import type { RedisAddress, RedisLogin } from './address.ts'

/** With the time of one turn, what a call waits at most when a fault begins. */
const COMMAND_TIMEOUT_MS = 250
/** Until a connection that is given up is dropped, if the other side says nothing to it. */
const DISCONNECT_TIMEOUT_MS = 50
/** Between two tries to connect. */
const RECONNECT_MS_MIN = 50
const RECONNECT_MS_MAX = 250
/** To listen to a sentinel again that went away: there are others. */
const SENTINEL_RECONNECT_MS = 1_000
/** Counts in one script call, so that none holds Redis for long (a few µs each). */
const COUNTS_PER_CALL_MAX = 256
/** Of a cluster: where a slot is being moved a call takes two hops, after a failover some more. */
const REDIRECTIONS_MAX = 6
/** What ioredis says of a command without an answer; it gives no code. */
const TIMED_OUT = 'Command timed out'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    spendCalls(
      numberOfKeys: number,
      ...keysAndArguments: (string | number)[]
    ): Result<unknown, Context>
  }
}

/** PEM texts; without a CA those that come with Node are trusted. */
export interface RedisTls {
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
}

export interface RedisStoreOptions {
  readonly address: RedisAddress
  readonly tls: RedisTls
}

/**
 * A *part* is what fails as one: the server, or in a cluster one of its masters.
 */
export interface RedisStore {
  /** Counts of one part that one script call may touch. */
  readonly countsPerCallMax: number
  /** The part that keeps the count of this name, as far as is known. */
  partOf(name: string): string
  /** Runs `spend.lua`, once at most. */
  spend(names: readonly string[], values: readonly (string | number)[]): Promise<unknown>
  /**
   * Makes good for a missed answer. It may come late or never: on a connection that lost one every
   * later answer would be taken for that of the command before it.
   */
  renew(part: string, error: unknown): void
  /** Told of a connection that failed, with its part where that cannot be asked now. */
  onFault(listener: (error: Error, part?: string) => void): void
  /** Told when a connection stands. */
  onReady(listener: () => void): void
  close(): void
}

export function connectRedis({ address, tls }: RedisStoreOptions): RedisStore {
  return address.form === 'cluster' ? connectCluster(address, tls) : connectServer(address, tls)
}

/** Redis answered with an error: the script did nothing. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof ReplyError
}

function connectServer(
  address: Exclude<RedisAddress, { form: 'cluster' }>,
  tls: RedisTls,
): RedisStore {
  const redis = new Redis({ ...commonOptions(address, tls), ...whereabouts(address, tls) })
  const part = 'redis'
  let isClosed = false
  // ioredis 6 ends for good where it is told to connect anew while it asks the sentinels.
  redis.on('end', () => {
    if (!isClosed) setTimeout(() => redis.connect().catch(() => {}), RECONNECT_MS_MIN)
  })
  const watches =
    address.form === 'sentinel'
      ? watchFailovers(address, tls, (host, port) => {
          const { remoteAddress, remotePort } = redis.stream ?? {}
          if (remoteAddress !== host || remotePort !== port) redis.disconnect(true)
        })
      : []
  return {
    countsPerCallMax: COUNTS_PER_CALL_MAX,
    partOf: () => part,
    spend: (names, values) => redis.spendCalls(names.length, ...names, ...values),
    renew(_, error) {
      if (isTimeout(error)) redis.disconnect(true)
    },
    onFault(listener) {
      redis.on('error', (error) => listener(error, part))
      redis.on('sentinelError', (error) => listener(error))
    },
    onReady: (listener) => void redis.on('ready', listener),
    close() {
      isClosed = true
      for (const one of [redis, ...watches]) one.disconnect()
    },
  }
}

/**
 * A master that was cut off from the others may go on answering us: what it counts is lost. So the
 * sentinels are listened to; each tells when it knows. (The `failoverDetector` of ioredis writes each of their faults to standard
 * error.)
 */
function watchFailovers(
  { sentinels, sentinelLogin, master, isTls }: Extract<RedisAddress, { form: 'sentinel' }>,
  tls: RedisTls,
  onFailover: (host: string, port: number) => void,
): Redis[] {
  return sentinels.map((sentinel) => {
    const watch = new Redis({
      ...sentinel,
      ...sentinelLogin,
      ...(isTls ? { tls } : {}),
      enableReadyCheck: false,
      maxRetriesPerRequest: null,
      retryStrategy: () => SENTINEL_RECONNECT_MS,
    })
    watch.on('error', () => {})
    watch.on('message', (_, switched: string) => {
      const [name, , , host = '', port] = switched.split(' ')
      if (name === master) onFailover(host, Number(port))
    })
    watch.subscribe('+switch-master').catch(() => {})
    return watch
  })
}

function whereabouts(address: Exclude<RedisAddress, { form: 'cluster' }>, tls: RedisTls) {
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
        sentinelCommandTimeout: COMMAND_TIMEOUT_MS,
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
    // For a node whose connection is being made; a command in it is as bounded as any other.
    enableOfflineQueue: true,
    maxRedirections: REDIRECTIONS_MAX,
    // What was sent over a connection that closed may have been counted. The rest is for the breaker.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    clusterRetryStrategy: () => RECONNECT_MS_MAX,
    slotsRefreshTimeout: COMMAND_TIMEOUT_MS,
    // Names are left to the connection, which needs them for TLS.
    dnsLookup: (name, done) => done(null, name),
    scripts: { spendCalls: SPEND_SCRIPT },
  })
  // Until it connects, which it tries without end: the reasons are those of `node error`.
  cluster.on('error', () => {})
  const nodes = new Map<string, Redis>()
  cluster.on('+node', (node: Redis) => {
    nodes.set(keyOf(node), node)
    // Also to replicas: one that takes over is there at once.
    node.connect().catch(() => {})
  })
  cluster.on('-node', (node: Redis) => {
    if (nodes.get(keyOf(node)) === node) nodes.delete(keyOf(node))
  })
  const partOf = (name: string) => cluster.slots[slotOf(name)]?.[0] ?? 'cluster'
  return {
    countsPerCallMax: 1,
    partOf,
    async spend(names, values) {
      // There the queue is without bounds.
      if (cluster.status !== 'ready') {
        throw new Error('the cluster is down, or none of its nodes answers')
      }
      gather(nodes.get(partOf(names[0] ?? ''))?.stream)
      return cluster.spendCalls(names.length, ...names, ...values)
    },
    renew(part, error) {
      if (isTimeout(error)) nodes.get(part)?.disconnect()
      cluster.refreshSlotsCache()
    },
    // The node may be a replica, or have lost its slots to one: a call that misses tells better.
    onFault: (listener) => void cluster.on('node error', (error) => listener(error)),
    onReady: (listener) => void cluster.on('ready', listener),
    close: () => cluster.disconnect(),
  }
}

function keyOf({ options: { host, port } }: Redis): string {
  return `${host}:${port}`
}

/** What one turn writes goes out at once: a write of its own costs more than the rest of a call. */
function gather(stream: Writable | undefined): void {
  if (stream === undefined || stream.writableCorked > 0) return
  stream.cork()
  process.nextTick(() => stream.uncork())
}

function slotOf(name: string): number {
  return new Command('get', [name]).getSlot() ?? 0
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === TIMED_OUT
}

const SPEND_SCRIPT = { lua: readFileSync(new URL('./spend.lua', import.meta.url), 'utf8') }

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
    commandTimeout: COMMAND_TIMEOUT_MS,
    socketTimeout: 2 * COMMAND_TIMEOUT_MS,
    connectTimeout: COMMAND_TIMEOUT_MS,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    keepAlive: 1000,
    retryStrategy: (attempt: number) =>
      Math.min(RECONNECT_MS_MIN * attempt, RECONNECT_MS_MAX) + Math.random() * RECONNECT_MS_MIN,
    reconnectOnError: (error: Error) => (/^READONLY/.test(error.message) ? (1 as const) : false),
    enableAutoPipelining: false,
    scripts: { spendCalls: SPEND_SCRIPT },
  }
}
