/**
 * The connections for transactions. While all are in use, transactions wait in queues, one for each account. A
 * connection that becomes free goes to the waiting account that uses the fewest connections. An account whose
 * transactions take long therefore soon leaves connections to the other accounts.
 */
import type pg from 'pg'
import { type CollapsingLog, createCollapsingLog } from '../../../shared/process/collapsing-log.ts'
import { FairQueue } from '../../../shared/process/fair-queue.ts'
import { FULL_RETRY_MS, isServerFull } from './errors.ts'
import { createPool, type PoolOptions } from './sessions.ts'

/** The id of an account, or undefined for the service's own work. */
type AccountId = string | undefined

export interface Writer {
  readonly client: pg.ClientBase
  /** Must be called once. A broken connection is closed. */
  release(isBroken: boolean): void
}

export class PostgresWriters {
  readonly #pool: pg.Pool
  readonly #collapsingLog: CollapsingLog
  /** The number of connections that may be used or opened now. */
  #free: number
  /** The number of open connections that transactions use. */
  #openInUse = 0
  /** The number of connections that each account uses or opens at present. */
  readonly #used = new Map<AccountId, number>()
  /** For each waiting transaction, the function that opens or reuses a connection for it. */
  readonly #waiting = new FairQueue<() => void, AccountId>()

  constructor(options: PoolOptions) {
    this.#pool = createPool(options)
    this.#free = options.connectionsMax
    this.#collapsingLog = createCollapsingLog(options.log)
  }

  /** `busy` includes connections that are still being opened. */
  get activity(): { readonly busy: number; readonly idle: number; readonly waiting: number } {
    const { totalCount, idleCount: idle } = this.#pool
    return { busy: totalCount - idle, idle, waiting: this.#waiting.length }
  }

  /**
   * Rejects if no connection is free within `waitMsMax`, or if a new connection cannot be opened. If the database
   * accepts no more connections, but at least one is open, waits for an open connection instead.
   */
  connect(accountId: AccountId, waitMsMax: number): Promise<Writer> {
    return new Promise((resolve, reject) => {
      let isLate = false
      const open = async () => {
        try {
          const writer = await this.#open(accountId)
          if (isLate) writer.release(false)
          else resolve(writer)
        } catch (error) {
          if (isServerFull(error) && this.#openConnections > 0 && !isLate) {
            this.#collapsingLog.warn(
              'full',
              { err: error, open: this.#openConnections },
              'the database accepts no more connections: transactions wait for those that are open',
            )
            return this.#waiting.push(accountId, open)
          }
          reject(error)
        }
        clearTimeout(timer)
      }
      const timer = setTimeout(() => {
        isLate = true
        this.#waiting.remove(accountId, open)
        reject(new Error(`No connection was free for ${waitMsMax} ms`))
      }, waitMsMax)
      this.#waiting.push(accountId, open)
      this.#serve()
    })
  }

  /** Runs a single statement outside of a transaction. */
  async query(text: string, values: readonly string[]): Promise<unknown> {
    return this.#pool.query(text, [...values])
  }

  async end(): Promise<void> {
    await this.#pool.end()
  }

  /** The number of open connections. The pool's `totalCount` also includes connections that are still being opened. */
  get #openConnections(): number {
    return this.#openInUse + this.#pool.idleCount
  }

  #serve(): void {
    if (this.#free === 0) return
    const open = this.#waiting.shift((accountId) => this.#used.get(accountId) ?? 0)
    open?.()
  }

  async #open(accountId: AccountId): Promise<Writer> {
    this.#free--
    this.#used.set(accountId, (this.#used.get(accountId) ?? 0) + 1)
    try {
      const client = await this.#pool.connect()
      this.#openInUse++
      return {
        client,
        release: (isBroken) => {
          client.release(isBroken)
          this.#openInUse--
          this.#decreaseUsed(accountId)
          this.#addFree()
        },
      }
    } catch (error) {
      this.#decreaseUsed(accountId)
      // A full server would also reject the next connection, which is therefore delayed.
      if (isServerFull(error)) setTimeout(() => this.#addFree(), FULL_RETRY_MS).unref()
      else this.#addFree()
      throw error
    }
  }

  #decreaseUsed(accountId: AccountId): void {
    const used = (this.#used.get(accountId) ?? 0) - 1
    if (used > 0) this.#used.set(accountId, used)
    else this.#used.delete(accountId)
  }

  #addFree(): void {
    this.#free++
    this.#serve()
  }
}
