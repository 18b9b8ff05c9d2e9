/**
 * Computes previews of reminders once for concurrent readers. An account with thousands of customers takes
 * seconds: its preview is cached for a while and shown with its time. A request during the computation
 * receives a page that suggests reloading it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { PreviewedMessage } from '../../reminders/preview.ts'

/** The longest wait of a page request; the timeout of gateways is ten seconds. */
const WAIT_MS = 5000
/** Previews that took longer are cached. */
const SLOW_MS = 1000
const KEPT_MS = 120_000
/** Cached accounts, each of up to twenty megabytes. */
const KEPT_MAX = 4

export interface Preview {
  readonly messages: readonly PreviewedMessage[]
  /** The time of the computation. */
  readonly at: Date
}

interface Work {
  readonly preview: Promise<Preview>
  /** Undefined during the computation. */
  tookMs: number | undefined
  readonly begunAt: Date
}

export interface Previews {
  /** Resolves with undefined if the computation takes longer than the wait. */
  get(
    name: string,
    now: Date,
    work: () => Promise<readonly PreviewedMessage[]>,
  ): Promise<Preview | undefined>
}

export function createPreviews(waitMs = WAIT_MS): Previews {
  const works = new Map<string, Work>()

  function begin(name: string, now: Date, run: () => Promise<readonly PreviewedMessage[]>): Work {
    const begun = performance.now()
    const preview = run().then((messages) => ({ messages, at: now }))
    const work: Work = { preview, tookMs: undefined, begunAt: now }
    works.delete(name)
    works.set(name, work)
    for (const oldest of works.keys()) {
      if (works.size <= KEPT_MAX) break
      works.delete(oldest)
    }
    preview.then(
      () => {
        work.tookMs = performance.now() - begun
        if (work.tookMs < SLOW_MS && works.get(name) === work) works.delete(name)
      },
      () => works.delete(name),
    )
    return work
  }

  function isFresh(work: Work, now: Date): boolean {
    return work.tookMs === undefined || now.getTime() - work.begunAt.getTime() < KEPT_MS
  }

  return {
    async get(name, now, run) {
      const known = works.get(name)
      const { preview } = known !== undefined && isFresh(known, now) ? known : begin(name, now, run)
      const waiting = new AbortController()
      const late = delay(waitMs, undefined, { signal: waiting.signal })
      try {
        return await Promise.race([preview, late.catch(() => undefined)])
      } finally {
        waiting.abort()
      }
    },
  }
}
