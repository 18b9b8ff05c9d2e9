import type { MessageRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { reasonWords, renderMessageStatus, STAGE_WORDS } from '../shell/ledger-words.ts'
import { type TimeContext, timeAgo } from '../shell/words.ts'

const PATH = '/settings/messages'

/** If `customerNames` (by customer id) is absent, the table has no column for the customer. */
export function renderMessageTable(
  caption: string,
  rows: readonly MessageRow[],
  times: TimeContext,
  customerNames?: ReadonlyMap<string, string>,
): Html {
  return html`<table class="records ledger"><caption class="unseen">${caption}</caption>
<thead><tr><th scope="col">Message</th>${customerNames && html`<th scope="col">Customer</th>`}<th scope="col">Status</th><th scope="col">When</th></tr></thead>
<tbody>${rows.map(
    (
      row,
    ) => html`<tr><th scope="row" data-label="Message"><a href="${PATH}/${row.id}">${messageName(row)}</a>${row.subject !== null && html`<span class="detail">${row.subject}</span>`}</th>
${customerNames && html`<td data-label="Customer"><a href="/settings/customers/${row.debtor_id}" translate="no">${customerNames.get(row.debtor_id)}</a></td>`}
<td data-label="Status">${renderMessageStatus(row)}${row.suppression_reason !== null && html`<span class="detail">${reasonWords(row.suppression_reason)}</span>`}</td>
<td data-label="When">${timeAgo(row.sent_at ?? row.updated_at, times)}</td></tr>`,
  )}</tbody></table>`
}

const KIND_WORDS: Readonly<Record<MessageRow['kind'], string>> = {
  reminder: 'Reminder',
  invoice_copy: 'Copy of an invoice',
  receipt: 'Receipt',
  statement: 'Statement',
  reply: 'Reply',
}

/**
 * Returns the kind and the stage, e.g. `Firm reminder`. The stage of a courtesy reminder is stored as null. The name of
 * the stage `reminder` already says the kind.
 */
export function messageName({ kind, stage }: Pick<MessageRow, 'kind' | 'stage'>): string {
  if (kind !== 'reminder') return KIND_WORDS[kind]
  if (stage === null) return 'Courtesy reminder'
  return stage === 'reminder' ? STAGE_WORDS[stage] : `${STAGE_WORDS[stage]} reminder`
}
