/** Runs a read only once per transaction. Its result must not change within the transaction. */
import type { Transaction } from './tables.ts'

/**
 * An object for the current transaction of each `tx`, to which the results of its reads belong. `tx` itself cannot be
 * used for this: on SQLite, all transactions use the same `tx`, one after the other.
 */
const current = new WeakMap<Transaction, object>()

/** Must be called at the beginning of each transaction, so that its reads do not get results of an earlier one. */
export function clearReadResults(tx: Transaction): void {
  current.set(tx, {})
}

/** Runs `read` at most once in a transaction for each key; later calls get the first result. */
export function oncePerTransaction<Result>(
  read: (tx: Transaction, key: string) => Promise<Result>,
): (tx: Transaction, key: string) => Promise<Result> {
  const results = new WeakMap<object, Map<string, Promise<Result>>>()
  return (tx, key) => {
    const transaction = current.get(tx) ?? {}
    const ofTransaction = results.get(transaction) ?? new Map<string, Promise<Result>>()
    results.set(transaction, ofTransaction)
    const result = ofTransaction.get(key) ?? read(tx, key)
    ofTransaction.set(key, result)
    return result
  }
}
