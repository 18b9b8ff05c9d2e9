/**
 * Announces work to all backends of one database with LISTEN and NOTIFY. Notifications are sent after the commit
 * instead of inside the transaction, because PostgreSQL serializes the commits of transactions that notify.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { Listeners } from '../announcements.ts'

const CHANNEL = 'receivables'

/** The pause between two statements that notify. Announcements that are made meanwhile are sent together. */
const NOTIFY_EVERY_MS = 20

/**
 * The delay before a lost connection is opened again. Meanwhile, workers find the work of other backends only by
 * polling.
 */
const RECONNECT_MS = 1000

export interface PostgresAnnouncementsOptions {
  /**
   * Opens a connection for LISTEN to the server that accepts writes, because only that server sends notifications. The
   * connection must not pass through a pooler, because LISTEN needs a session of its own.
   */
  connect(): Promise<pg.Client>
  /** Sends a statement that notifies. Any connection may be used, even through a pooler. */
  query(text: string, values: readonly string[]): Promise<unknown>
}

export class PostgresAnnouncements {
  readonly #options: PostgresAnnouncementsOptions
  readonly #listeners = new Listeners()
  /** Identifies this process's own notifications, of which its listeners already know. */
  readonly #sender = randomUUID()
  readonly #unsent = new Set<string>()
  #sending: Promise<void> | undefined
  #connecting: Promise<void> | undefined
  #connection: pg.Client | undefined
  #isClosed = false

  constructor(options: PostgresAnnouncementsOptions) {
    this.#options = options
  }

  listen(topic: string, listener: () => void): () => void {
    const removeListener = this.#listeners.add(topic, listener)
    this.#connecting ??= this.#connect()
    return removeListener
  }

  /** Must be called after the commit. */
  publish(topics: ReadonlySet<string>): void {
    if (topics.size === 0) return
    this.#listeners.call(topics)
    for (const topic of topics) this.#unsent.add(topic)
    this.#sending ??= this.#send()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#sending
    await this.#connecting
    await this.#connection?.end()
  }

  /** A notification that fails is lost: other backends find the work when they poll. */
  async #send(): Promise<void> {
    while (this.#unsent.size > 0) {
      const topics = [...this.#unsent]
      this.#unsent.clear()
      await this.#options
        .query('select pg_notify($1, $2)', [CHANNEL, [this.#sender, ...topics].join(' ')])
        .catch(() => {})
      if (!this.#isClosed) await delay(NOTIFY_EVERY_MS)
    }
    this.#sending = undefined
  }

  async #connect(): Promise<void> {
    let client: pg.Client | undefined
    try {
      client = await this.#options.connect()
      client.on('notification', ({ payload = '' }) => {
        const [sender, ...topics] = payload.split(' ')
        if (sender !== this.#sender) this.#listeners.call(topics)
      })
      client.once('end', () => {
        // If the connection ends before it is stored in `#connection`, the query below fails, and the `catch` block
        // reconnects.
        if (this.#connection === client) this.#reconnectLater()
      })
      await client.query(`listen ${CHANNEL}`)
      this.#connection = client
      // Earlier announcements of other backends may have been missed.
      this.#listeners.callAll()
    } catch {
      // `end` is not awaited, because it may never resolve if the connection hangs.
      void client?.end().catch(() => {})
      this.#reconnectLater()
    }
  }

  #reconnectLater(): void {
    this.#connection = undefined
    if (this.#isClosed) return
    setTimeout(() => {
      if (!this.#isClosed) this.#connecting = this.#connect()
    }, RECONNECT_MS).unref()
  }
}
