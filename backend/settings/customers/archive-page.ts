import type { DebtorRow } from '../../database/tables.ts'
import type { Balance } from '../../debtors/balances.ts'
import { type Html, html } from '../../html/html.ts'
import { renderConfirmPage } from '../shell/confirm-page.ts'
import { renderMoney } from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'

export function renderArchive(frame: Frame, row: DebtorRow, balances: readonly Balance[]): Html {
  const path = `/settings/customers/${row.id}`
  const owed = balances.filter(({ outstanding }) => outstanding > 0)
  const consequences = html`<p>${
    owed.length === 0
      ? 'This customer owes nothing.'
      : html`This customer owes ${owed.map(({ outstanding, currency }, index) => html`${index > 0 && ', '}<strong>${renderMoney(outstanding, currency)}</strong>`)}.`
  }</p>
<p>No more reminders are sent, and waiting reminders are cancelled. Invoices stay open and can be
paid. You can restore the customer at any time.</p>`
  return renderConfirmPage(frame, {
    title: `Archive ${row.name}?`,
    section: '/settings/customers',
    back: { path, name: row.name },
    consequences,
    action: `${path}/archive`,
    button: 'Archive customer',
    isDangerous: true,
  })
}
