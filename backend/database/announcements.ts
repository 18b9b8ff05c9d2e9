/**
 * Announcements: a transaction announces work for a worker, and listeners are called after its commit. An
 * announcement is lost if the process is killed right after the commit, so listeners also poll.
 */
import type { Transaction } from './tables.ts'

const collected = new WeakMap<Transaction, Set<string>>()

/** Calls the listeners of `topic` when the transaction is committed. */
export function announce(tx: Transaction, topic: string): void {
  collected.get(tx)?.add(topic)
}

/** Collects the announcements of a new transaction in `topics`. */
export function collectAnnouncements(tx: Transaction, topics: Set<string>): void {
  collected.set(tx, topics)
}

/** The listeners of one process. */
export class Listeners {
  readonly #listeners = new Map<string, Set<() => void>>()

  /** Returns a function that removes the listener. */
  add(topic: string, listener: () => void): () => void {
    const ofTopic = this.#listeners.get(topic) ?? new Set()
    this.#listeners.set(topic, ofTopic.add(listener))
    return () => void ofTopic.delete(listener)
  }

  call(topics: Iterable<string>): void {
    for (const topic of topics) {
      for (const listener of this.#listeners.get(topic) ?? []) listener()
    }
  }

  callAll(): void {
    this.call(this.#listeners.keys())
  }
}
