/**
 * Groups transactions that change different debtors of one account, and runs each group as one transaction of the
 * server. A group shares one connection, one COMMIT and the round trips, which take more time than most statements. A
 * new group begins at once, unless another group of the account waits for a connection, or `GROUPS_MAX` groups are in
 * progress. The transactions that wait at the same time form the next group.
 *
 * If a group fails, nothing of it is recorded, and each of its transactions runs again by itself. If the outcome of the
 * COMMIT is unknown, all transactions of the group fail instead.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { DatabaseOptions, Transaction } from '../database.ts'
import type { Writer } from './writers.ts'

/** The maximum number of groups of one account at the same time: this process works on one, the server on the other. */
const GROUPS_MAX = 2

/** The maximum number of transactions in a group, which bounds how many rows it locks, and for how long. */
const GROUP_SIZE_MAX = 16

/**
 * A group of only one transaction counts as a group in progress for at most this long. The transaction may be waiting
 * for a locked row, and the other transactions of the account should not wait with it.
 */
const LONE_MS_MAX = 250

export type Work<T> = (tx: Transaction) => Promise<T>

export interface GroupWork<T> {
  readonly work: Work<T>
  /** A group runs in the asynchronous context of one caller, but each work runs in the context of its own caller. */
  asCaller<Result>(run: () => Result): Result
}

export interface GroupOptions {
  /** Rejects if no connection is free within `waitMsMax`, or if a new one cannot be opened. */
  connect(accountId: string, waitMsMax: number): Promise<Writer>
  /** Records that a transaction was lost because it got no connection. Returns the problem to throw. */
  recordLoss(cause: unknown): Error
  /** Runs one transaction, and retries it until `deadline`. The first attempt uses `writer`, if there is one. */
  runAlone<T>(work: Work<T>, accountId: string, deadline: number, writer?: Writer): Promise<T>
  /**
   * Runs all works in one transaction, and releases the writer. Returns the results after the COMMIT, or undefined if a
   * work, a statement or the COMMIT failed, so that nothing is recorded. Throws a problem if the outcome of the COMMIT
   * is unknown.
   */
  runTogether<T>(works: readonly GroupWork<T>[], writer: Writer): Promise<readonly T[] | undefined>
  /** How long a transaction may wait for a connection, and be retried. */
  readonly waitMsMax: number
  readonly transactionWaits: DatabaseOptions['transactionWaits']
}

/** A transaction that waits for its group. The result of its work is a function that settles the caller's promise. */
interface Job extends GroupWork<() => void> {
  readonly debtorId: string
  /** Called when the job leaves the queue, unless its wait has timed out. */
  endWait(): void
  /** Runs the transaction by itself, and settles the promise of the caller. */
  runAlone(writer?: Writer): Promise<void>
  reject(error: unknown): void
}

interface Account {
  readonly id: string
  readonly waiting: Job[]
  /** The number of waiting and running transactions of each debtor. A debtor without any has no entry. */
  readonly debtors: Map<string, number>
  /** The number of groups that run, or that wait for a connection. */
  groups: number
  /** Whether a group waits for a connection. When it gets the connection, it takes the jobs that wait at that time. */
  isConnecting: boolean
}

export class TransactionGroups {
  readonly #options: GroupOptions
  readonly #accounts = new Map<string, Account>()

  constructor(options: GroupOptions) {
    this.#options = options
  }

  get waiting(): number {
    let sum = 0
    for (const { waiting } of this.#accounts.values()) sum += waiting.length
    return sum
  }

  /** Has the same outcome as if the transaction had run by itself. */
  async run<T>(
    work: Work<T>,
    { accountId, debtorId }: { readonly accountId: string; readonly debtorId: string },
  ): Promise<T> {
    const account = this.#accounts.get(accountId) ?? newAccount(accountId)
    this.#accounts.set(accountId, account)
    const others = account.debtors.get(debtorId) ?? 0
    account.debtors.set(debtorId, others + 1)
    try {
      // If another transaction of the same debtor is in progress, this transaction will probably wait for the debtor's
      // row. In a group, it would make the transactions of other debtors wait too.
      return await (others > 0
        ? this.#runAlone(work, accountId)
        : this.#runInGroup(work, account, debtorId))
    } finally {
      const rest = (account.debtors.get(debtorId) ?? 0) - 1
      if (rest > 0) account.debtors.set(debtorId, rest)
      else account.debtors.delete(debtorId)
      if (account.debtors.size === 0) this.#accounts.delete(accountId)
    }
  }

  #runAlone<T>(work: Work<T>, accountId: string): Promise<T> {
    const { runAlone, waitMsMax } = this.#options
    return runAlone(work, accountId, performance.now() + waitMsMax)
  }

  #runInGroup<T>(work: Work<T>, account: Account, debtorId: string): Promise<T> {
    const { runAlone, recordLoss, waitMsMax, transactionWaits } = this.#options
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const addedAt = performance.now()
    const deadline = addedAt + waitMsMax
    const asCaller = AsyncLocalStorage.snapshot()
    const job: Job = {
      debtorId,
      asCaller,
      endWait() {
        clearTimeout(timer)
        transactionWaits?.observe((performance.now() - addedAt) / 1000)
      },
      async work(tx) {
        const value = await work(tx)
        return () => resolve(value)
      },
      async runAlone(writer) {
        await asCaller(() => runAlone(work, account.id, deadline, writer)).then(resolve, reject)
      },
      reject,
    }
    const timer = setTimeout(() => {
      account.waiting.splice(account.waiting.indexOf(job), 1)
      reject(recordLoss(new Error(`No connection was free for ${waitMsMax} ms`)))
    }, waitMsMax)
    account.waiting.push(job)
    this.#startGroup(account)
    return promise
  }

  #startGroup(account: Account): void {
    if (account.waiting.length === 0 || account.isConnecting || account.groups === GROUPS_MAX)
      return
    account.groups++
    account.isConnecting = true
    void this.#runGroup(account).then(() => {
      account.groups--
      this.#startGroup(account)
    })
  }

  async #runGroup(account: Account): Promise<void> {
    const { connect, recordLoss, waitMsMax } = this.#options
    const [connected] = await Promise.allSettled([connect(account.id, waitMsMax)])
    account.isConnecting = false
    // Without a connection, all waiting jobs fail now: in a later group, they would probably fail too, but only after
    // another wait.
    const hasConnection = connected.status === 'fulfilled'
    const jobs = account.waiting.splice(0, hasConnection ? GROUP_SIZE_MAX : Infinity)
    for (const job of jobs) job.endWait()
    if (hasConnection) {
      this.#startGroup(account)
      await this.#runJobs(jobs, connected.value)
    } else for (const job of jobs) job.reject(recordLoss(connected.reason))
  }

  async #runJobs(jobs: readonly Job[], writer: Writer): Promise<void> {
    const [first] = jobs
    // All jobs may have timed out.
    if (first === undefined) return writer.release(false)
    if (jobs.length === 1) return await endOrTimeout(first.runAlone(writer), LONE_MS_MAX)
    // Groups of several backends must lock rows in the same order, to avoid deadlocks.
    const sorted = jobs.toSorted((a, b) => (a.debtorId < b.debtorId ? -1 : 1))
    try {
      const settlers = await this.#options.runTogether(sorted, writer)
      if (settlers === undefined) for (const job of jobs) void job.runAlone()
      else for (const settle of settlers) settle()
    } catch (error) {
      for (const job of jobs) job.reject(error)
    }
  }
}

function newAccount(id: string): Account {
  return { id, waiting: [], debtors: new Map(), groups: 0, isConnecting: false }
}

async function endOrTimeout(running: Promise<void>, ms: number): Promise<void> {
  const { promise: elapsed, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  await Promise.race([running, elapsed])
  clearTimeout(timer)
}
