/**
 * Finds the one of several servers that accepts writes. A standby that is promoted starts a timeline with a
 * higher number. A former primary that still runs, or runs again, has a lower number and is never used
 * again. Without this, a backend could read from it that a revoked key is valid.
 *
 * Each server is polled over a connection of its own, so that one that hangs does not delay the others. A
 * single server that is reached directly is not polled: it becomes a standby only by a restart, which no
 * connection outlives.
 */
import type { Socket } from 'node:net'
import pg from 'pg'
import type { Logger } from '../../../shared/process/log.ts'
import { describeServer } from './servers.ts'

/** A quarter of the second within which all connections to a demoted server are closed. */
const POLL_MS = 250

/** A server that does not respond for this long is unreachable. */
const RESPONSE_MS_MAX = 1000

/** The types of `pg` do not include its socket. */
export type Client = pg.Client & { readonly connection: { readonly stream: Socket } }

export interface PrimaryOptions {
  readonly urls: readonly [string, ...string[]]
  readonly log: Logger
  readonly name: string
  /**
   * Whether the URL is that of a pooler, whose sessions may change to another server between transactions.
   */
  readonly hasPooler: boolean
}

/** The state as reported by the server; `timeline` is 0 in recovery. */
interface State {
  readonly isStandby: boolean
  readonly timeline: number
}

interface Server {
  readonly url: string
  state: State | undefined
  client: pg.Client | undefined
  failure: unknown
}

export class Primary {
  readonly #log: Logger
  readonly #name: string
  readonly #servers: readonly Server[]
  readonly #isPolled: boolean
  /** Connections that are open or being opened. */
  readonly #clients = new Map<Client, string>()
  #url: string
  /** The highest timeline seen so far. */
  #timeline = 0
  #timers = new Set<NodeJS.Timeout>()
  #isClosed = false

  constructor({ urls, log, name, hasPooler }: PrimaryOptions) {
    this.#log = log
    this.#name = `${name} poll`
    this.#servers = urls.map((url) => ({
      url,
      state: undefined,
      client: undefined,
      failure: undefined,
    }))
    this.#isPolled = urls.length > 1 || hasPooler
    this.#url = urls[0]
  }

  /** The URL of the server that accepts writes, as far as is known. */
  get url(): string {
    return this.#url
  }

  /** Finds the server that accepts writes, then polls for changes. Throws if no server accepts writes. */
  async start(): Promise<void> {
    if (!this.#isPolled) return
    await Promise.all(this.#servers.map((server) => this.#poll(server)))
    const writable = this.#servers.some(({ state }) => state?.isStandby === false)
    if (!writable) {
      await this.close()
      throw new Error(
        `No database server accepts writes: ${this.#servers.map(describeFailure).join('; ')}`,
      )
    }
    for (const server of this.#servers) this.#schedule(server)
  }

  /**
   * Closes the connection, which is to the server at `url`, when that server no longer accepts writes, or when
   * another server does.
   */
  track(client: Client, url: string): void {
    const { stream } = client.connection
    this.#clients.set(client, url)
    stream.once('close', () => this.#clients.delete(client))
    if (url !== this.#url) stream.destroy()
  }

  /** Closes every connection, because the server has rejected a write. */
  reconnect(): void {
    this.#endConnections(() => true)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
    await Promise.all(this.#servers.map(({ client }) => client?.end().catch(() => {})))
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
    try {
      server.client ??= await this.#connect(server.url)
      server.state = await readState(server.client, this.#servers.length > 1)
      server.failure = undefined
    } catch (error) {
      // Not awaited, since the connection may hang.
      void server.client?.end().catch(() => {})
      server.client = undefined
      server.state = undefined
      server.failure = error
    }
    if (!this.#isClosed) this.#decide(server)
  }

  async #connect(url: string): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: url,
      application_name: this.#name,
      connectionTimeoutMillis: RESPONSE_MS_MAX,
      query_timeout: RESPONSE_MS_MAX,
      keepAlive: true,
    })
    client.on('error', () => {})
    await client.connect()
    return client
  }

  #decide(server: Server): void {
    const { state, url } = server
    if (state === undefined) return
    if (state.isStandby) {
      if (url === this.#url) this.#endConnections((at) => at === url)
      return
    }
    const current = this.#servers.find((one) => one.url === this.#url)
    // Two URLs may lead to the same server, with the same timeline: either can be used.
    const isNewer = state.timeline > this.#timeline
    const replaces = state.timeline === this.#timeline && current?.state?.isStandby !== false
    if (url !== this.#url && (isNewer || replaces)) this.#moveTo(url)
    this.#timeline = Math.max(this.#timeline, state.timeline)
  }

  #moveTo(url: string): void {
    const [from, to] = [this.#url, url].map(describeServer)
    if (this.#timeline > 0) this.#log.warn({ from, to }, 'another database server accepts writes')
    this.#url = url
    this.#endConnections((at) => at !== url)
  }

  #endConnections(isAffected: (url: string) => boolean): void {
    for (const [client, url] of this.#clients) {
      if (isAffected(url)) client.connection.stream.destroy()
    }
  }
}

async function readState(client: pg.Client, isOneOfSeveral: boolean): Promise<State> {
  const { rows } = await client.query<{ standby: boolean; timeline: string }>(
    // The first eight digits of a WAL file's name are the timeline. A server in recovery cannot report it.
    isOneOfSeveral
      ? `select pg_is_in_recovery() as standby, case when pg_is_in_recovery() then ''
          else substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end as timeline`
      : `select pg_is_in_recovery() as standby, '' as timeline`,
  )
  const { standby = true, timeline = '' } = rows[0] ?? {}
  return { isStandby: standby, timeline: Number.parseInt(timeline || '0', 16) }
}

function describeFailure({ url, state, failure }: Server): string {
  const reason = failure instanceof Error ? failure.message : String(failure)
  return `${describeServer(url)} ${state === undefined ? reason : 'is in recovery'}`
}
