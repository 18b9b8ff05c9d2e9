import { updateAccountTotals } from '../../debtors/ledger-totals.ts'
import type { SessionPage } from '../shell/page-request.ts'
import { renderHome } from './home-page.ts'
import { type Overview, readOverview } from './overview.ts'

export const homePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: '/settings',
    async handle({ session, now }, { database }) {
      // The page reads totals, which a worker would update only after a delay.
      await updateAccountTotals(database, session.account.id)
      const overview = await readOverview(database.read, session, now)
      return { json: represent(overview), page: (frame) => renderHome(frame, overview) }
    },
  },
]

function represent(overview: Overview) {
  const {
    due,
    archivedDue,
    largestDebtors,
    reminders,
    oldInvoices,
    approvalsWaiting,
    currenciesWithoutPaymentDetails,
    brokenEndpoints,
    unreachable,
    keysNearLimit,
    today,
  } = overview
  return {
    object: 'overview',
    today,
    due: due.map(({ currency, outstanding, overdue, ages }) => ({
      currency,
      outstanding,
      overdue,
      archived: archivedDue.get(currency)?.outstanding ?? { amount: 0, invoices: 0 },
      ages,
      largest_debtors: (largestDebtors.get(currency) ?? []).map((debtor) => ({ ...debtor })),
    })),
    reminders: {
      by_day: reminders.days.map(({ date, debtors }) => ({ date, customers: debtors })),
      has_more: reminders.isTruncated,
    },
    old_invoices: { count: oldInvoices.invoices, has_more: oldInvoices.hasMore },
    approvals_waiting: approvalsWaiting,
    currencies_without_payment_details: currenciesWithoutPaymentDetails,
    webhook_endpoints: brokenEndpoints.map(({ id, url, status }) => ({ id, url, status })),
    unreachable_customers: { count: unreachable.customers, has_more: unreachable.hasMore },
    busy_keys: keysNearLimit.map(({ id, name, used, limit, endsAt }) => ({
      ...{ id, name, used, limit },
      resets_at: endsAt,
    })),
  }
}
