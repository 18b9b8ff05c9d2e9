import type { Transaction } from './tables.ts'

/**
 * Runs `read` at most once in a transaction for each key; later calls get the first result. The transaction must not
 * change what `read` reads.
 */
export function oncePerTransaction<Result>(
  read: (tx: Transaction, key: string) => Promise<Result>,
): (tx: Transaction, key: string) => Promise<Result> {
  const results = new WeakMap<Transaction, Map<string, Promise<Result>>>()
  return (tx, key) => {
    const ofTransaction = results.get(tx) ?? new Map<string, Promise<Result>>()
    results.set(tx, ofTransaction)
    const result = ofTransaction.get(key) ?? read(tx, key)
    ofTransaction.set(key, result)
    return result
  }
}
