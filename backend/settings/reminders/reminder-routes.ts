import { Problem, temporarilyUnavailable } from '../../../shared/contract/problem.ts'
import { isCalendarDate } from '../../calendar/calendar.ts'
import { updateAccountTotals } from '../../debtors/ledger-totals.ts'
import { readOldInvoices } from '../../invoices/old-invoices.ts'
import { countUpcomingDebtors } from '../../invoices/upcoming-reminders.ts'
import { countAwaitingApproval } from '../../messages/approval-log.ts'
import { readChasingSettings } from '../../reminders/chasing-settings.ts'
import { previewReminders } from '../../reminders/preview.ts'
import { listCurrenciesWithoutPaymentDetails } from '../../reminders/reminder-content.ts'
import { representPreviewed } from '../../reminders/representation.ts'
import { listOf } from '../shell/list-query.ts'
import type { SessionPage } from '../shell/page-request.ts'
import { createPreviews } from './previews.ts'
import { DAYS_DEFAULT, renderReminders } from './reminders-page.ts'

const PATH = '/settings/reminders'
const DAYS_MAX = 31

/** After this time, the page is shown even if the preview is still being computed. */
const PAGE_WAIT_MS = 1000
/**
 * After this time, a script gets 503, even if there is a previous preview. The gateway's timeout is longer: ten seconds
 * by default.
 */
const JSON_WAIT_MS = 5000

/**
 * Until there is a preview, the page shows how many customers have a reminder scheduled on each day. To count them, it
 * reads at most this many invoices.
 */
const SCHEDULED_INVOICES_MAX = 20_000

export function reminderPages(pageWaitMs = PAGE_WAIT_MS): readonly SessionPage[] {
  const previews = createPreviews()
  return [
    {
      method: 'GET',
      path: PATH,
      async handle({ session, query, now, wantsJson }, { database }) {
        const { read } = database
        const { id: accountId } = session.account
        const { days, day } = parseQuery(query)
        const waitMs = wantsJson ? JSON_WAIT_MS : pageWaitMs
        const { preview, isComputing } = await previews.get(
          `${accountId} ${days}`,
          now,
          waitMs,
          () => previewReminders(read, accountId, now, days),
        )
        if (isComputing && wantsJson) throw previewNotReady()
        const scheduled =
          preview === undefined
            ? await countUpcomingDebtors(read, session.account, now, {
                // Today, and the days that the preview covers after it.
                days: days + 1,
                max: SCHEDULED_INVOICES_MAX,
              })
            : undefined
        const { holidays, chaseFrom } = await readChasingSettings(read, accountId)
        const awaitingApproval = await countAwaitingApproval(read, accountId)
        // `listCurrenciesWithoutPaymentDetails` reads totals, which a worker would update only after a delay.
        await updateAccountTotals(database, accountId)
        const oldInvoices = await readOldInvoices(read, accountId)
        const currenciesWithoutPaymentDetails = await listCurrenciesWithoutPaymentDetails(
          read,
          accountId,
        )
        const view = {
          ...{ session, now, daysAhead: days, day, preview, holidays, chaseFrom, awaitingApproval },
          ...{ isComputing, scheduled, currenciesWithoutPaymentDetails, oldInvoices },
        }
        return {
          json: listOf(preview?.messages.map(representPreviewed) ?? [], null),
          page: (frame) => renderReminders(frame, view),
        }
      },
    },
  ]
}

function previewNotReady(): Problem {
  return temporarilyUnavailable(
    'The preview is still being computed. Repeat the request shortly.',
    { seconds: 5 },
  )
}

/**
 * With the parameter `day`, the page shows the reminders of this day only; the JSON always contains those of all days.
 * Throws `Problem` 400.
 */
function parseQuery(query: URLSearchParams): { days: number; day: string | undefined } {
  for (const name of query.keys()) {
    if (name !== 'days' && name !== 'day') {
      throw new Problem('unknown_query_parameter', `This page has no parameter ${name}.`)
    }
  }
  const text = query.get('days') || String(DAYS_DEFAULT)
  const days = /^\d{1,2}$/.test(text) ? Number(text) : 0
  if (days < 1 || days > DAYS_MAX) {
    throw new Problem(
      'invalid_query_parameter',
      `The parameter days must be a whole number from 1 to ${DAYS_MAX}.`,
    )
  }
  const day = query.get('day') || undefined
  if (day !== undefined && !isCalendarDate(day)) {
    throw new Problem('invalid_query_parameter', 'The parameter day must be a date, YYYY-MM-DD.')
  }
  return { days, day }
}
