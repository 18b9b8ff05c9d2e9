/**
 * What will be sent, worked out once for all who look at it meanwhile. An account of thousands of
 * customers takes seconds: it is then shown for a while as it was, with the time it is of, and who
 * comes before it is done is told to look again.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { PreviewedMessage } from '../../reminders/preview.ts'

/** How long one waits for a page; gateways wait ten seconds. */
const WAIT_MS = 5000
/** What took longer is kept. */
const SLOW_MS = 1000
const KEPT_MS = 120_000
/** Accounts; of each up to twenty megabytes. */
const KEPT_MAX = 4

export interface Preview {
  readonly messages: readonly PreviewedMessage[]
  /** When it was worked out. */
  readonly at: Date
}

interface Work {
  readonly preview: Promise<Preview>
  /** Undefined while it is under way. */
  tookMs: number | undefined
  readonly begunAt: Date
}

export interface Previews {
  /** Undefined where it is still being worked out. */
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

  function isGood(work: Work, now: Date): boolean {
    return work.tookMs === undefined || now.getTime() - work.begunAt.getTime() < KEPT_MS
  }

  return {
    async get(name, now, run) {
      const known = works.get(name)
      const { preview } = known !== undefined && isGood(known, now) ? known : begin(name, now, run)
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
