/** A connection for reads outside of transactions: opened when needed, and again after a loss. */
import type pg from 'pg'
import { unavailable } from '../unavailable.ts'
import { errorKindOf, FULL_RETRY_MS, isServerFull } from './errors.ts'
import type { Client } from './primary.ts'
import { createClient, type SessionOptions, SILENCE_MS_MAX } from './sessions.ts'

export interface ReadStatement {
  readonly text: string
  /** The name under which the server keeps the statement prepared. */
  readonly name: string | undefined
  readonly values: readonly unknown[]
}

export interface ReadResult {
  readonly fields: readonly pg.FieldDef[]
  readonly rows: readonly (readonly unknown[])[]
}

export class ReaderConnection {
  readonly #options: SessionOptions
  /** The current connection, or the connection that is being opened. */
  #connecting: Promise<Client> | undefined
  #client: Client | undefined
  /** The names of the statements that the current connection has prepared, by text. */
  #preparedNames = new Map<string, string>()
  #inFlight = 0
  /** When the last statement ended or, if later, when the first statement after an idle time began. */
  #progressAt = 0
  #watchdog: NodeJS.Timeout | undefined
  #isRejected = false

  constructor(options: SessionOptions) {
    this.#options = options
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get isConnected(): boolean {
    return this.#client !== undefined
  }

  /** Whether the server rejected the connection less than `FULL_RETRY_MS` ago because its connections were used up. */
  get isRejected(): boolean {
    return this.#isRejected
  }

  /** Throws `Problem` 503 if no connection can be opened. If the statement fails, throws the error of the driver. */
  async run({ text, name, values }: ReadStatement): Promise<ReadResult> {
    if (this.#inFlight === 0) this.#progressAt = performance.now()
    this.#inFlight += 1
    let client: Client | undefined
    try {
      client = this.#client ?? (await this.#connect())
      this.#watch()
      if (name !== undefined) this.#deallocateFormerName(client, text, name)
      const config = { text, values: [...values], rowMode: 'array' } as const
      const { fields, rows } = await client.query<unknown[]>(
        name === undefined ? config : { ...config, name },
      )
      return { fields, rows }
    } catch (error) {
      // The server reports the end of a session before it closes the connection. Without this, the next statement would
      // use the connection that is about to be closed.
      if (client === this.#client && errorKindOf(error) === 'connection_lost') this.drop()
      throw error
    } finally {
      this.#inFlight -= 1
      this.#progressAt = performance.now()
    }
  }

  /** If the statement has a new name, deallocates its former name. The server would otherwise keep both. */
  #deallocateFormerName(client: Client, text: string, name: string): void {
    const former = this.#preparedNames.get(text)
    this.#preparedNames.set(text, name)
    // This fails if the connection is lost, or if the server does not know the former name. Neither matters here.
    if (former !== undefined && former !== name)
      client.query(`deallocate ${former}`).catch(() => {})
  }

  /** Runs `work`. All statements that `work` begins are sent in one write to the socket. */
  inOneWrite(work: () => void): void {
    const stream = this.#client?.connection.stream
    stream?.cork()
    work()
    stream?.uncork()
  }

  async close(): Promise<void> {
    clearTimeout(this.#watchdog)
    const client = await this.#connecting?.catch(() => undefined)
    await client?.end()
  }

  /** Closes the connection. The statements in progress fail, and the next statement opens a new connection. */
  drop(): void {
    this.#client?.connection.stream.destroy()
    this.#client = undefined
    this.#connecting = undefined
  }

  #connect(): Promise<Client> {
    this.#connecting ??= this.#open().catch((error: unknown) => {
      this.#connecting = undefined
      if (isServerFull(error)) this.#markRejected()
      throw unavailable(error)
    })
    return this.#connecting
  }

  #markRejected(): void {
    this.#isRejected = true
    setTimeout(() => {
      this.#isRejected = false
    }, FULL_RETRY_MS).unref()
  }

  async #open(): Promise<Client> {
    const client = createClient(this.#options)
    const evict = () => {
      if (this.#client !== client) return
      this.#client = undefined
      this.#connecting = undefined
    }
    // Without a listener, a restart of the server would end this process.
    client.on('error', evict)
    client.on('end', evict)
    await client.connect()
    await assertNotInRecovery(client).catch((error: unknown) => {
      client.connection.stream.destroy()
      throw error
    })
    this.#client = client
    this.#preparedNames = new Map()
    return client
  }

  /** One timer covers all statements in progress: within its time, the server must complete one of them. */
  #watch(afterMs = SILENCE_MS_MAX): void {
    if (this.#watchdog !== undefined || !this.#options.hasTimeLimits) return
    this.#watchdog = setTimeout(() => {
      this.#watchdog = undefined
      if (this.#inFlight === 0) return
      const leftMs = this.#progressAt + SILENCE_MS_MAX - performance.now()
      if (leftMs <= 0) this.drop()
      else this.#watch(leftMs)
    }, afterMs)
    this.#watchdog.unref()
  }
}

/**
 * A server in recovery may return outdated data, with which the backend could accept a revoked key. A server enters
 * recovery only by a restart, which no direct connection outlives, so each connection queries the state only once.
 * Through a pooler, `Primary` polls the state.
 */
async function assertNotInRecovery(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ standby: boolean }>('select pg_is_in_recovery() as standby')
  if (rows[0]?.standby !== false) throw new Error('The database server is in recovery')
}
