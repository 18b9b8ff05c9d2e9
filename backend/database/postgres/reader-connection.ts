/** One connection for reads outside of transactions: made when needed, and again after a loss. */
import type { Socket } from 'node:net'
import pg from 'pg'
import { unavailable } from '../unavailable.ts'
import { type SessionOptions, SILENCE_MS_MAX, sessionConfig } from './connection.ts'
import { troubleOf } from './errors.ts'

/** The types of `pg` leave its socket out. */
type Client = pg.Client & { readonly connection: { readonly stream: Socket } }

export interface ReadStatement {
  readonly text: string
  /** Under which the server keeps it prepared. */
  readonly name: string | undefined
  readonly values: readonly unknown[]
}

export interface ReadResult {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly unknown[])[]
}

export class ReaderConnection {
  readonly #options: SessionOptions
  /** Connecting or connected. */
  #connecting: Promise<Client> | undefined
  #client: Client | undefined
  #inFlight = 0
  /** When the last result came, or when the first statement was sent after a pause. */
  #progressAt = 0
  #watchdog: NodeJS.Timeout | undefined

  constructor(options: SessionOptions) {
    this.#options = options
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get isConnected(): boolean {
    return this.#client !== undefined
  }

  /** Throws `Problem` 503 where there is no connection to be had, else what the driver throws. */
  async run({ text, name, values }: ReadStatement): Promise<ReadResult> {
    if (this.#inFlight === 0) this.#progressAt = performance.now()
    this.#inFlight += 1
    let client: Client | undefined
    try {
      client = this.#client ?? (await this.#connect())
      this.#watch()
      const config = { text, values: [...values], rowMode: 'array' } as const
      const { fields, rows } = await client.query<unknown[]>(
        name === undefined ? config : { ...config, name },
      )
      return { columns: fields.map((field) => field.name), rows }
    } catch (error) {
      // The server reports the end of a session before it closes the connection.
      if (client === this.#client && troubleOf(error) === 'lost') this.drop()
      throw error
    } finally {
      this.#inFlight -= 1
      this.#progressAt = performance.now()
    }
  }

  /** Statements that `work` sends reach the server in one write. */
  together(work: () => void): void {
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

  /** Ends the connection: statements under way fail as lost, the next one connects again. */
  drop(): void {
    this.#client?.connection.stream.destroy()
    this.#client = undefined
    this.#connecting = undefined
  }

  #connect(): Promise<Client> {
    this.#connecting ??= this.#open().catch((error: unknown) => {
      this.#connecting = undefined
      throw unavailable(error)
    })
    return this.#connecting
  }

  async #open(): Promise<Client> {
    const client = new pg.Client(sessionConfig(this.#options)) as Client
    const forget = () => {
      if (this.#client !== client) return
      this.#client = undefined
      this.#connecting = undefined
    }
    // Without a listener a server that restarts would end this process.
    client.on('error', forget)
    client.on('end', forget)
    await client.connect()
    await assertWritable(client).catch((error: unknown) => {
      client.connection.stream.destroy()
      throw error
    })
    this.#client = client
    return client
  }

  /** One timer for all statements: the server must get ahead with one of them from time to time. */
  #watch(afterMs = SILENCE_MS_MAX): void {
    if (this.#watchdog !== undefined || this.#options.isPatient) return
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
 * What a server in recovery shows may be old: a key that was revoked meanwhile would be accepted.
 * Asked once, since a server enters recovery only by a restart, which no connection outlives.
 */
async function assertWritable(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ standby: boolean }>('select pg_is_in_recovery() as standby')
  if (rows[0]?.standby !== false) throw new Error('The database server is in recovery')
}
