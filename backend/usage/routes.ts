/**
 * The route to which gateways report the calls to which they responded themselves, and the rate-limit windows that have
 * changed.
 */
import type { ServerRoute } from '@hapi/hapi'
import Joi from 'joi'
import { PROBLEM_TYPES, Problem } from '../../shared/contract/problem.ts'
import {
  USAGE_REPORT_ENTRIES_MAX,
  USAGE_REPORT_PATH,
  type UsageReport,
} from '../../shared/contract/usage-report.ts'
import { writeInBatches } from '../background/batches.ts'
import type { Database } from '../database/database.ts'
import { addReportedCalls, updateWindows } from './usage-reports.ts'

export interface UsageRouteDeps {
  readonly database: Database
  readonly clock: () => Date
}

/** The latest time that a `Date` can represent, in milliseconds since the epoch. */
const DATE_MS_MAX = 8.64e15

const positiveInteger = Joi.number().integer().min(1)
const keyId = Joi.string().max(64)

const REPORT = Joi.object<UsageReport>({
  gateway: Joi.string().min(8).max(64),
  batch: positiveInteger,
  refused: Joi.array()
    .max(USAGE_REPORT_ENTRIES_MAX)
    .items({
      key_id: keyId,
      hour: Joi.string().pattern(/^\d{4}-\d\d-\d\dT\d\d$/),
      // 2 is for OPTIONS. The other calls to which a gateway responds itself get a 4xx or a 5xx.
      status_class: Joi.number().integer().min(2).max(5),
      calls: positiveInteger,
    }),
  // Gateways from before the first release (0.1.0) do not send this field.
  errors: Joi.array()
    .max(USAGE_REPORT_ENTRIES_MAX)
    .items({
      key_id: keyId,
      day: Joi.string().pattern(/^\d{4}-\d\d-\d\d$/),
      code: Joi.string().valid(...Object.keys(PROBLEM_TYPES)),
      calls: positiveInteger,
    })
    .optional()
    .default([]),
  windows: Joi.array()
    .max(USAGE_REPORT_ENTRIES_MAX)
    .items({
      key_id: keyId,
      used: positiveInteger,
      limit: positiveInteger,
      ends_at: positiveInteger.max(DATE_MS_MAX),
    }),
}).prefs({ convert: false, presence: 'required' })

export function usageRoutes({ database, clock }: UsageRouteDeps): ServerRoute[] {
  return [
    {
      method: 'POST',
      path: USAGE_REPORT_PATH,
      async handler(request) {
        const report = parseReport(request.payload)
        const now = clock()
        await database.transaction((tx) => addReportedCalls(tx, report, now))
        await writeInBatches(report.windows, (batch) =>
          database.transaction((tx) => updateWindows(tx, batch, now)),
        )
        return { applied: report.batch }
      },
    },
  ]
}

function parseReport(payload: unknown): UsageReport {
  try {
    const { value, error } = REPORT.validate(JSON.parse(String(payload)))
    if (error !== undefined) throw error
    return value
  } catch (cause) {
    throw new Problem('bad_request', 'The body is not a usage report.', { cause })
  }
}
