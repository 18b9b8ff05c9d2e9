/** Starts the two workers that plan reminders and send them. */
import type { Logger } from '../../shared/process/log.ts'
import { startWorker } from '../background/worker.ts'
import type { Database } from '../database/database.ts'
import type { Mailer } from '../mail/mail.ts'
import type { UnsubscribeLinks } from '../mail/unsubscribe-links.ts'
import { runPlanning } from './planning/planning-run.ts'
import { startSendWorker } from './sending/send-worker.ts'

/**
 * How often the planner searches for debtors that are due for planning. A search that finds none takes a millisecond.
 */
const PLAN_EVERY_MS = 15_000

export interface RemindersOptions {
  readonly database: Database
  readonly mailer: Mailer
  readonly unsubscribeLinks: UnsubscribeLinks
  /** Whether this is the only backend that uses the database. */
  readonly isOnlyBackend: boolean
  readonly clock: () => Date
  readonly log: Logger
}

export interface Reminders {
  /** Finishes the work in progress, and starts no other work. */
  drain(): Promise<void>
}

export function startReminders(options: RemindersOptions): Reminders {
  const { database, clock, log } = options
  const planner = startWorker({
    name: 'planning reminders',
    everyMs: PLAN_EVERY_MS,
    log,
    database,
    async round(signal) {
      const planned = await runPlanning({ database, clock, log }, { allDebtors: false }, signal)
      if (planned.messages > 0) log.info(planned, 'reminders planned')
      return undefined
    },
  })
  const sendWorker = startSendWorker(options)
  return {
    async drain() {
      await Promise.all([planner.stop(), sendWorker.stop()])
    },
  }
}
