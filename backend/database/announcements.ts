/**
 * A transaction announces work for a worker. After the commit, the listeners in this process are called and, on
 * PostgreSQL, those in other backends. An announcement is lost if the process is killed right after the commit, so
 * workers also poll.
 */
import type { Transaction } from './tables.ts'

const topicsByTransaction = new WeakMap<Transaction, Set<string>>()

/** Calls the listeners of `topic` when the transaction is committed. */
export function announce(tx: Transaction, topic: string): void {
  topicsByTransaction.get(tx)?.add(topic)
}

/**
 * Makes `announce` add the topics of the transaction to `topics`. The caller calls the listeners of these topics after
 * the commit.
 */
export function collectAnnouncements(tx: Transaction, topics: Set<string>): void {
  topicsByTransaction.set(tx, topics)
}

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

  /** Call this after connecting to PostgreSQL: earlier announcements of other backends may have been missed. */
  callAll(): void {
    this.call(this.#listeners.keys())
  }
}
