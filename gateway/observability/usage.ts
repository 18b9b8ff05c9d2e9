/**
 * Tells the backend what it cannot see: the calls of known keys that the gateway answered itself, and
 * the hour that each key is in. For charts and for the page of a key; nothing is decided by it.
 */

import { createId } from '../../shared/contract/id.ts'
import type { ProblemCode } from '../../shared/contract/problem.ts'
import {
  type RefusalCode,
  type RefusedCalls,
  USAGE_REPORT_ENTRIES_MAX,
  USAGE_REPORT_PATH,
  type UsageReport,
} from '../../shared/contract/usage-report.ts'
import type { Logger } from '../../shared/process/log.ts'
import type { Accounting, Allowance } from '../rate-limit/limiter.ts'
import type { Upstream } from '../upstream/backends.ts'

const REPORT_MS = 3_000
/** Keys remembered while the backends are away; beyond it the newest are not told of. */
const PENDING_MAX = 100_000

export interface AnsweredCall {
  readonly keyId: string | undefined
  readonly allowance: Allowance | undefined
  /** The backend answered, and has counted it. */
  readonly forwarded: boolean
  /** Of the problem that the gateway answered itself. */
  readonly code: ProblemCode | undefined
}

export interface Usage {
  note(call: AnsweredCall, status: number): void
  /** Reports what is left, as far as a backend takes it. */
  close(): Promise<void>
}

export function createUsage(upstream: Upstream, accounting: Accounting, log: Logger): Usage {
  // A process of its own after each start, so that a batch number means one report only.
  const gateway = createId('gtw')
  const refused = new Map<string, RefusedCalls & { calls: number }>()
  const errors = new Map<string, RefusalCode & { calls: number }>()
  let batch = 0
  /** Sent and not acknowledged: sent again as it was, so that the backend can tell. */
  let unacknowledged: UsageReport | undefined

  function note({ keyId, allowance, forwarded, code }: AnsweredCall, status: number): void {
    if (keyId === undefined || allowance === undefined) return
    // Of a call whose answer was lost the backend knows.
    const isKnown = forwarded || status === 502 || status === 504
    if (isKnown && code === undefined) return
    const at = new Date().toISOString()
    if (code !== undefined) noteCode(keyId, code, at.slice(0, 'YYYY-MM-DD'.length))
    if (isKnown) return
    const hour = at.slice(0, 'YYYY-MM-DDTHH'.length)
    const statusClass = Math.floor(status / 100)
    const name = `${keyId} ${hour} ${statusClass}`
    const known = refused.get(name)
    if (known !== undefined) known.calls++
    else if (refused.size < PENDING_MAX) {
      refused.set(name, { key_id: keyId, hour, status_class: statusClass, calls: 1 })
    }
  }

  function noteCode(keyId: string, code: ProblemCode, day: string): void {
    const name = `${keyId} ${day} ${code}`
    const known = errors.get(name)
    if (known !== undefined) known.calls++
    else if (errors.size < PENDING_MAX) errors.set(name, { key_id: keyId, day, code, calls: 1 })
  }

  function nextReport(): UsageReport | undefined {
    const windows = accounting.takeChanged(USAGE_REPORT_ENTRIES_MAX)
    if (refused.size === 0 && errors.size === 0 && windows.length === 0) return undefined
    return {
      gateway,
      batch: ++batch,
      refused: takeFrom(refused).map(([, calls]) => calls),
      errors: takeFrom(errors).map(([, calls]) => calls),
      windows: windows.map(({ keyId, used, limit, endsAt }) => {
        return { key_id: keyId, used: Math.min(used, limit), limit, ends_at: endsAt }
      }),
    }
  }

  async function report(): Promise<void> {
    unacknowledged ??= nextReport()
    if (unacknowledged === undefined) return
    const { status } = await upstream.ask('POST', USAGE_REPORT_PATH, unacknowledged)
    if (status !== 200) throw new Error(`the usage report was answered ${status}`)
    unacknowledged = undefined
  }

  let reporting = Promise.resolve()
  const reportQuietly = () => {
    reporting = reporting.then(report).catch((error: unknown) => {
      log.debug({ err: error }, 'usage not reported yet')
    })
    return reporting
  }
  const timer = setInterval(reportQuietly, REPORT_MS)

  return {
    note,
    async close() {
      clearInterval(timer)
      // What was under way, and what came since.
      await reportQuietly()
      await reportQuietly()
    },
  }
}

/** At most one report's worth, removed from `pending`. */
function takeFrom<T>(pending: Map<string, T>): [string, T][] {
  const taken = [...pending.entries().take(USAGE_REPORT_ENTRIES_MAX)]
  for (const [name] of taken) pending.delete(name)
  return taken
}
