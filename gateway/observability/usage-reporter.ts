/**
 * Reports to the backend what only the gateway knows: the rate-limit windows that have changed, and calls to which the
 * gateway itself responded. Such a call is reported if the rate limit was applied to it and it did not get 401, or if
 * it came from an address that the key does not allow. The reports are for charts and pages; no decision depends on
 * them.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { createId } from '../../shared/contract/id.ts'
import type { ProblemCode } from '../../shared/contract/problem.ts'
import {
  type CallsNotForwarded,
  type ErrorCount,
  USAGE_REPORT_ENTRIES_MAX,
  USAGE_REPORT_PATH,
  type UsageReport,
} from '../../shared/contract/usage-report.ts'
import type { Logger } from '../../shared/process/log.ts'
import type { Allowance, RateLimiter } from '../rate-limit/limiter.ts'
import type { Backends } from '../upstream/backends.ts'

/**
 * One report is sent per interval, with at most 1000 windows. With twenty thousand keys in use, the counts that
 * Settings shows are therefore up to a minute out of date.
 */
const REPORT_INTERVAL_MS = 3_000
/** The maximum size of `missingInUsage`, and of `errors`. Calls that need a further entry are not reported. */
const PENDING_MAX = 100_000
/**
 * While the gateway drains, reports are sent for at most this long, which suffices for the entries of twenty thousand
 * keys: a report takes 30 to 150 ms.
 */
const LAST_REPORTS_MS = 3_000

export interface FinishedCall {
  readonly keyId: string | undefined
  /**
   * The result of the rate limit; undefined if the limit was not applied, or if the call was rejected with 401 after it
   * had passed the limit, because the key had just become invalid.
   */
  readonly allowance: Allowance | undefined
  /** Whether the response comes from a backend. The call is then in the backend's usage counts. */
  readonly hasBackendResponse: boolean
  /** The code of the problem if the gateway itself rejected the call. */
  readonly code: ProblemCode | undefined
}

export interface UsageReporter {
  record(call: FinishedCall, status: number): void
  readonly rejectedReports: number
  /** Reports everything that waits to be reported, until a report fails or `LAST_REPORTS_MS` have passed. */
  close(): Promise<void>
}

export function createUsageReporter(
  backends: Pick<Backends, 'request'>,
  rateLimiter: RateLimiter,
  log: Logger,
): UsageReporter {
  // The id is new after each start: id and batch number together identify one report.
  const gateway = createId('gtw')
  /** Calls that are missing in the usage counts of the backends: rejected calls, and OPTIONS. */
  const missingInUsage = new Map<string, CallsNotForwarded & { calls: number }>()
  const errors = new Map<string, ErrorCount & { calls: number }>()
  let batch = 0
  let rejectedReports = 0
  /**
   * A report that was sent but not acknowledged. It is sent again unchanged, and the backend recognizes the
   * repetition.
   */
  let unacknowledged: UsageReport | undefined

  function record(finishedCall: FinishedCall, status: number): void {
    const { keyId, allowance, hasBackendResponse, code } = finishedCall
    // Calls from addresses that are not allowed do not count against the limit, but Admins must see them.
    const isReported = allowance !== undefined || code === 'address_not_allowed'
    if (keyId === undefined || !isReported) return
    // A call that got 502 or 504 is not reported, because a backend may have received and counted it. If none has, the
    // call is counted nowhere.
    const mayBeInUsage = hasBackendResponse || status === 502 || status === 504
    if (mayBeInUsage && code === undefined) return
    const now = new Date().toISOString()
    if (code !== undefined) recordCode(keyId, code, now.slice(0, 'YYYY-MM-DD'.length))
    if (mayBeInUsage) return
    const hour = now.slice(0, 'YYYY-MM-DDTHH'.length)
    const statusClass = Math.floor(status / 100)
    const name = `${keyId} ${hour} ${statusClass}`
    const entry = missingInUsage.get(name)
    if (entry !== undefined) entry.calls++
    else if (missingInUsage.size < PENDING_MAX) {
      missingInUsage.set(name, { key_id: keyId, hour, status_class: statusClass, calls: 1 })
    }
  }

  function recordCode(keyId: string, code: ProblemCode, day: string): void {
    const name = `${keyId} ${day} ${code}`
    const entry = errors.get(name)
    if (entry !== undefined) entry.calls++
    else if (errors.size < PENDING_MAX) errors.set(name, { key_id: keyId, day, code, calls: 1 })
  }

  function nextReport(): UsageReport | undefined {
    const windows = rateLimiter.takeChanged(USAGE_REPORT_ENTRIES_MAX)
    if (missingInUsage.size === 0 && errors.size === 0 && windows.length === 0) return undefined
    return {
      gateway,
      batch: ++batch,
      // Despite its name, `refused` also includes OPTIONS.
      refused: takeFrom(missingInUsage).map(([, calls]) => calls),
      errors: takeFrom(errors).map(([, calls]) => calls),
      // `used` can exceed the limit, e.g. after the limit was lowered. It is capped at the limit, so that Settings
      // shows e.g. 600 of 600.
      windows: windows.map(({ keyId, used, limit, endsAt }) => {
        return { key_id: keyId, used: Math.min(used, limit), limit, ends_at: endsAt }
      }),
    }
  }

  /** Resolves to false if there was nothing to report. */
  async function report(): Promise<boolean> {
    unacknowledged ??= nextReport()
    if (unacknowledged === undefined) return false
    const { status } = await backends.request({
      method: 'POST',
      path: USAGE_REPORT_PATH,
      body: unacknowledged,
      pool: 'internal',
    })
    if (status !== 200 && !isRejection(status)) {
      throw new Error(`the backend responded to a usage report with ${status}`)
    }
    // A report that the backend rejected is dropped. Otherwise, it would block all later reports.
    if (status !== 200) recordRejectedReport(status)
    unacknowledged = undefined
    return true
  }

  /** Logs only the first rejection since the start. */
  function recordRejectedReport(status: number): void {
    if (rejectedReports === 0) {
      log.error(
        { status, gateway, batch },
        'a backend rejects usage reports, which are dropped: charts of rejected calls are incomplete; compare the versions of gateway and backend',
      )
    }
    rejectedReports++
  }

  let reporting = Promise.resolve(false)
  /** Reports are sent one after the other. Resolves to true if a report was sent. */
  const tryToReport = () => {
    reporting = reporting.then(report).catch((error: unknown) => {
      log.debug({ err: error }, 'cannot report usage; will retry')
      return false
    })
    return reporting
  }
  const timer = setInterval(tryToReport, REPORT_INTERVAL_MS)

  return {
    record,
    get rejectedReports() {
      return rejectedReports
    },
    async close() {
      clearInterval(timer)
      await repeatFor(LAST_REPORTS_MS, tryToReport)
    },
  }
}

/**
 * Repeats the work until it resolves to false, for at most `ms`. Without the race, a backend that hangs would make the
 * drain exceed its timeout.
 */
async function repeatFor(ms: number, work: () => Promise<boolean>): Promise<void> {
  let isLate = false
  const late = delay(ms, undefined, { ref: false }).then(() => {
    isLate = true
  })
  const repeat = async () => {
    while ((await work()) && !isLate);
  }
  await Promise.race([repeat(), late])
}

/**
 * Whether the same report would be rejected again. A 404 does not count: it can mean that `GATEWAY_SECRET` is wrong,
 * which operators can correct.
 */
function isRejection(status: number): boolean {
  return [400, 409, 413, 415, 422].includes(status)
}

/** Removes and returns the first entries, at most as many as one report may have. */
function takeFrom<T>(pending: Map<string, T>): [string, T][] {
  const taken = [...pending.entries().take(USAGE_REPORT_ENTRIES_MAX)]
  for (const [name] of taken) pending.delete(name)
  return taken
}
