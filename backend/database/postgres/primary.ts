/**
 * Finds which of several servers accepts writes. A standby that is promoted starts a timeline with a higher number. A
 * server with a timeline lower than the highest one seen is a former primary, and is not used: the backend could
 * otherwise accept a key that was revoked on the new primary.
 *
 * Each server is polled over a connection of its own, so that a server that hangs does not delay the others.
 *
 * The poll also finds dead connections, e.g. after a server has lost power. When the poll's connection is silent but a
 * new one works, every other connection that has been silent for equally long is closed. Without this, each statement
 * on such a connection would wait for its full time limit.
 */
import type { Socket } from 'node:net'
import pg from 'pg'
import type { Logger } from '../../../shared/process/log.ts'
import { connectFailureOf } from './errors.ts'
import { configFor, describeServer } from './servers.ts'

/**
 * All connections to a demoted server must be closed within a second. This interval leaves time for a slow response.
 */
const POLL_MS = 250

/**
 * If this backend's clock differs from the server's by more, background work is paused. The clocks of two backends then
 * differ by at most 20 s, for which leases have a margin (`MARGIN_MS` in `../../background/leases.ts`).
 */
const CLOCK_DIFFERENCE_MS_MAX = 10_000

/** A server that does not respond for this long is unreachable. */
const RESPONSE_MS_MAX = 1000

/** The types of `pg` do not include its socket. */
export type Client = pg.Client & { readonly connection: { readonly stream: Socket } }

export interface PrimaryOptions {
  readonly urls: readonly [string, ...string[]]
  readonly log: Logger
  readonly name: string
  /** Whether the URLs lead to poolers, whose sessions may change to another server between transactions. */
  readonly hasPooler: boolean
  /** Whether connections are kept for so long that they can become dead, as in a backend. */
  readonly isLongLived: boolean
  readonly clock: () => Date
}

/** `timeline` is 0 in recovery, and if there is only one URL. */
interface State {
  readonly isStandby: boolean
  readonly timeline: number
  /** Whether commits have been waiting for a synchronous standby for a second or longer. */
  readonly awaitsStandby: boolean
  /** Negative if the server's clock is behind the clock of this machine. */
  readonly clockAheadMs: number
}

interface Server {
  readonly url: string
  state: State | undefined
  client: pg.Client | undefined
  failure: unknown
  /**
   * The number of bytes that each connection to the server had received when the first poll without a response
   * was sent. Undefined while the server responds.
   */
  receivedBefore: ReadonlyMap<Client, number> | undefined
}

export class Primary {
  readonly #log: Logger
  readonly #name: string
  readonly #servers: readonly Server[]
  /** Whether the URLs may lead to several servers, of which only one accepts writes. */
  readonly #hasChoice: boolean
  readonly #isPolled: boolean
  readonly #clock: () => Date
  /** Connections that are open or being opened, each with the URL of its server. */
  readonly #clients = new Map<Client, string>()
  #url: string
  /** The highest timeline seen so far. */
  #timeline = 0
  #clockAheadMs = 0
  #timers = new Set<NodeJS.Timeout>()
  #isClosed = false

  constructor({ urls, log, name, hasPooler, isLongLived, clock }: PrimaryOptions) {
    this.#log = log
    this.#clock = clock
    this.#name = `${name} poll`
    this.#servers = urls.map((url) => ({
      url,
      state: undefined,
      client: undefined,
      failure: undefined,
      receivedBefore: undefined,
    }))
    // A single server that is reached directly becomes a standby only by a restart, which no connection outlives.
    this.#hasChoice = urls.length > 1 || hasPooler
    this.#isPolled = this.#hasChoice || isLongLived
    this.#url = urls[0]
  }

  /** The URL of the server that accepts writes, as far as is known. */
  get url(): string {
    return this.#url
  }

  /**
   * Why commits hang although the server accepts writes; undefined if they do not hang. Transactions that write nothing
   * still commit, so their success does not show that writes work.
   */
  get fault(): Error | undefined {
    if (this.#current?.state?.awaitsStandby !== true) return undefined
    return new Error('commits wait for the synchronous standby, which does not respond')
  }

  /** Describes the difference between the clocks of this machine and of the server, if it is too large. */
  get clockFault(): Error | undefined {
    const aheadMs = this.#clockAheadMs
    if (Math.abs(aheadMs) <= CLOCK_DIFFERENCE_MS_MAX) return undefined
    const difference = `${Math.round(Math.abs(aheadMs) / 1000)} s ${aheadMs > 0 ? 'behind' : 'ahead of'}`
    return new Error(
      `the clock of this machine is ${difference} the clock of PostgreSQL, so background work is paused`,
    )
  }

  get #current(): Server | undefined {
    return this.#servers.find(({ url }) => url === this.#url)
  }

  /**
   * With several servers, or through a pooler, finds the server that accepts writes, and throws if no server does. Then
   * polls for changes; a single server that is reached directly is polled only if `isLongLived` is true.
   */
  async start(): Promise<void> {
    if (this.#hasChoice) await this.#choose()
    if (!this.#isPolled) return
    // Background work begins after the start, and must know by then whether the clocks differ.
    if (!this.#hasChoice) await Promise.all(this.#servers.map((server) => this.#poll(server)))
    for (const server of this.#servers) this.#schedule(server)
  }

  /**
   * Registers a connection to the server at `url`. The connection is closed when this server no longer accepts
   * writes, or when another server accepts writes.
   */
  track(client: Client, url: string): void {
    const { stream } = client.connection
    this.#clients.set(client, url)
    stream.once('close', () => this.#clients.delete(client))
    if (url !== this.#url) stream.destroy()
  }

  /** Closes every connection, so that new ones are opened. Called when a server has become read-only. */
  reconnect(): void {
    this.#endConnections(() => true)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
    await Promise.all(this.#servers.map(({ client }) => client?.end().catch(() => {})))
  }

  async #choose(): Promise<void> {
    await Promise.all(this.#servers.map((server) => this.#poll(server)))
    const isAnyWritable = this.#servers.some(({ state }) => state?.isStandby === false)
    if (isAnyWritable) return
    await this.close()
    throw new Error(
      `No database server accepts writes: ${this.#servers.map(describeFailure).join('; ')}`,
    )
  }

  #schedule(server: Server): void {
    if (this.#isClosed) return
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      void this.#poll(server).then(() => this.#schedule(server))
    }, POLL_MS)
    timer.unref()
    this.#timers.add(timer)
  }

  async #poll(server: Server): Promise<void> {
    const from = performance.now()
    const received = this.#bytesReceivedFrom(server.url)
    try {
      const isNew = server.client === undefined
      server.client ??= await this.#connect(server.url)
      server.state = await readState(server.client, this.#servers.length > 1, this.#clock)
      server.failure = undefined
      // The first poll over a new connection closes no silent connections: until the second poll, the other connections
      // have time to receive pending responses.
      if (!isNew) this.#endSilent(server)
    } catch (error) {
      // Only a timeout means that the server is silent. A timer can be a millisecond early.
      if (performance.now() - from >= RESPONSE_MS_MAX - 1) server.receivedBefore ??= received
      // The end is not awaited, because the connection may hang.
      void server.client?.end().catch(() => {})
      server.client = undefined
      server.state = undefined
      server.failure = error
    }
    if (!this.#isClosed) this.#applyState(server)
    // The connection may have been opened while `close` was closing the others. It would keep the process from exiting.
    else void server.client?.end().catch(() => {})
  }

  async #connect(url: string): Promise<pg.Client> {
    const config = {
      application_name: this.#name,
      connectionTimeoutMillis: RESPONSE_MS_MAX,
      query_timeout: RESPONSE_MS_MAX,
      keepAlive: true,
    }
    const client = new pg.Client(configFor(url, config))
    client.on('error', () => {})
    await client.connect()
    return client
  }

  #applyState(server: Server): void {
    const { state, url } = server
    if (state === undefined) return
    if (state.isStandby) {
      if (url === this.#url) this.#endConnections((clientUrl) => clientUrl === url)
      return
    }
    const current = this.#current
    // Two URLs may lead to the same server, which reports the same timeline for both. If the timeline is not newer, the
    // current URL therefore remains in use, unless its server is a standby or does not respond.
    const isNewer = state.timeline > this.#timeline
    const replaces = state.timeline === this.#timeline && current?.state?.isStandby !== false
    if (url !== this.#url && (isNewer || replaces)) this.#moveTo(url)
    this.#timeline = Math.max(this.#timeline, state.timeline)
    if (url === this.#url) this.#clockAheadMs = state.clockAheadMs
  }

  #moveTo(url: string): void {
    const [from, to] = [this.#url, url].map(describeServer)
    // The choice at the start, when no timeline is known yet, is not a change.
    if (this.#timeline > 0) this.#log.warn({ from, to }, 'another database server accepts writes')
    this.#url = url
    this.#endConnections((clientUrl) => clientUrl !== url)
  }

  #bytesReceivedFrom(url: string): Map<Client, number> {
    const received = new Map<Client, number>()
    for (const [client, clientUrl] of this.#clients) {
      if (clientUrl === url) received.set(client, client.connection.stream.bytesRead)
    }
    return received
  }

  #endSilent(server: Server): void {
    const { receivedBefore, url } = server
    if (receivedBefore === undefined) return
    server.receivedBefore = undefined
    const silent = [...this.#clients.keys()].filter(
      (client) => receivedBefore.get(client) === client.connection.stream.bytesRead,
    )
    for (const { connection } of silent) connection.stream.destroy()
    this.#log.warn(
      { server: describeServer(url), closed: silent.length },
      'the database server was silent; silent connections to it are closed',
    )
  }

  #endConnections(isAffected: (url: string) => boolean): void {
    for (const [client, url] of this.#clients) {
      if (isAffected(url)) client.connection.stream.destroy()
    }
  }
}

async function readState(
  client: pg.Client,
  isOneOfSeveral: boolean,
  clock: () => Date,
): Promise<State> {
  const sentAt = clock().getTime()
  const { rows } = await client.query<{
    standby: boolean
    timeline: string
    synchronous: boolean
    time: number
  }>(
    // The first eight digits of a WAL file's name are the timeline. `pg_walfile_name` fails in recovery.
    `select pg_is_in_recovery() as standby, ${
      isOneOfSeveral
        ? `case when pg_is_in_recovery() then ''
            else substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end`
        : "''"
    } as timeline, current_setting('synchronous_standby_names') <> '' as synchronous,
    extract(epoch from clock_timestamp())::float8 * 1000 as time`,
  )
  const receivedAt = clock().getTime()
  const { standby = true, timeline = '', synchronous = false, time = sentAt } = rows[0] ?? {}
  return {
    isStandby: standby,
    timeline: Number.parseInt(timeline || '0', 16),
    // The server read its clock between sending and receiving, so only a time outside of this interval counts as a
    // difference.
    clockAheadMs: Math.min(0, time - sentAt) + Math.max(0, time - receivedAt),
    // Without synchronous standbys, no commit waits, so the second query, which takes ten times as long, is not
    // needed.
    awaitsStandby: synchronous && (await awaitsStandby(client)),
  }
}

async function awaitsStandby(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ waits: boolean }>(
    `select exists (
      select from pg_stat_activity
        where wait_event = 'SyncRep' and state_change < now() - interval '1 second'
    ) as waits`,
  )
  return rows[0]?.waits ?? false
}

function describeFailure({ url, state, failure }: Server): string {
  const reason = state === undefined ? connectFailureOf(failure) : 'is in recovery'
  return `${describeServer(url)} ${reason}`
}
