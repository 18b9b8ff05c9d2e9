import { type Html, html } from '../../html/html.ts'
import type { CountedImport, ImportCounts, ImportRecordKind } from '../../import/imports.ts'
import {
  countByKind,
  type KeptReason,
  type KeptRecord,
  type TakeBackPlan,
} from '../../import/take-back-plan.ts'
import { renderCommonHiddenFields, renderPage } from '../shell/layout.ts'
import { renderNext } from '../shell/list-query.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, plural } from '../shell/words.ts'

export const IMPORTS_PATH = '/settings/imports'
const SECTION = '/settings/customers'

/** The maximum number of kept records (records that cannot be taken back) that the page lists for each reason. */
const KEPT_SHOWN_MAX = 50

/**
 * The kinds of records that can be taken back. Corrections of records that existed before the import cannot be taken
 * back.
 */
const CREATED_KINDS = ['customer', 'invoice', 'payment'] as const

interface ImportsView {
  /** The parameter `limit` of the URL. */
  readonly limit: string | undefined
  readonly next: string | null
  readonly timezone: string
}

export function renderImports(
  frame: Frame,
  rows: readonly CountedImport[],
  { limit, next, timezone }: ImportsView,
): Html {
  const main = html`<p class="back"><a href="/settings/import">Import a file</a></p>
<h1>Imports</h1>
<p class="lead">Files that were imported on these pages. Imports from the command line are not listed, and cannot be taken
back as a whole: the command line creates each record through the API.</p>
${
  rows.length === 0
    ? html`<div class="card empty"><p><strong>No file was imported yet.</strong></p></div>`
    : html`<table class="records ledger dense"><caption class="unseen">Imports, newest first</caption>
<thead><tr><th scope="col">File</th><th scope="col">Imported</th><th scope="col">By</th><th scope="col" class="amount">Customers</th><th scope="col" class="amount">Invoices</th><th scope="col" class="amount">Payments</th><th scope="col">Status</th></tr></thead>
<tbody>${rows.map(
        ({ id, file_name, created_at, imported_by, counts }) =>
          html`<tr><th scope="row" data-label="File"><a href="${IMPORTS_PATH}/${id}" translate="no">${file_name}</a></th>
<td data-label="Imported"><time datetime="${created_at}">${exactTime(created_at, timezone)}</time></td>
<td data-label="By" translate="no">${imported_by}</td>
${CREATED_KINDS.map((kind) => html`<td data-label="${KIND_WORDS[kind].title}" class="amount">${counts[kind].all.toLocaleString('en')}</td>`)}
<td data-label="Status">${renderStatus(counts)}</td></tr>`,
      )}</tbody></table>`
}
${next !== null && renderNext(IMPORTS_PATH, { limit, before: next }, 'Older')}`
  return renderPage(frame, { title: 'Imports', section: SECTION, main })
}

const KIND_WORDS: Readonly<
  Record<ImportRecordKind, { readonly title: string; readonly one: string; readonly path: string }>
> = {
  customer: { title: 'Customers', one: 'customer', path: '/settings/customers' },
  invoice: { title: 'Invoices', one: 'invoice', path: '/settings/invoices' },
  payment: { title: 'Payments', one: 'payment', path: '/settings/payments' },
  correction: { title: 'Changes', one: 'change', path: '' },
}

function renderStatus(counts: ImportCounts): Html {
  const created = CREATED_KINDS.map((kind) => counts[kind])
  const all = created.reduce((sum, count) => sum + count.all, 0)
  const takenBack = created.reduce((sum, count) => sum + count.takenBack, 0)
  if (takenBack === 0) return html`<span class="badge active">Recorded</span>`
  return takenBack < all
    ? html`<span class="badge warning">Partly taken back</span>`
    : html`<span class="badge">Taken back</span>`
}

const REASON_WORDS: Readonly<Record<KeptReason, string>> = {
  changed: 'These were changed after the import',
  closed: 'These are already voided, written off, reversed or archived',
  corrected: 'These existed before the import and were changed by it',
  invoice_kept: 'The invoices that these payments settle cannot be taken back',
  other_records: 'These customers have other invoices, payments or messages',
  paid: 'These were paid separately, or their payment was changed after the import',
  reminded: 'A reminder about these was approved, or may have reached the customer',
}

export interface TakeBackView {
  readonly row: CountedImport
  readonly plan: TakeBackPlan
  readonly timezone: string
  readonly isAdmin: boolean
  /**
   * Present if the page is the response to a request that took records back. `done` is the number of records that this
   * request and the earlier ones took back. `isComplete` is false if records remain for another request.
   */
  readonly progress?: { readonly done: number; readonly isComplete: boolean }
}

/**
 * Renders one import, with the form that takes it back. If the action needs several requests, `data-continue` lets the
 * script of the pages submit the form again without another click.
 */
export function renderImport(frame: Frame, view: TakeBackView): Html {
  const { row, plan, timezone, isAdmin, progress } = view
  const { counts } = row
  const { customers, invoices, payments } = countByKind(plan.steps)
  const main = html`<p class="back"><a href="${IMPORTS_PATH}">Imports</a></p>
<div class="heading"><h1 translate="no">${row.file_name}</h1><p class="total">${renderStatus(counts)}</p></div>
<section class="card"><dl class="facts">
<div><dt>Imported</dt><dd><time datetime="${row.created_at}">${exactTime(row.created_at, timezone)}</time></dd></div>
<div><dt>By</dt><dd translate="no">${row.imported_by}</dd></div>
${CREATED_KINDS.map(
  (kind) =>
    html`<div><dt>${KIND_WORDS[kind].title}</dt><dd>${counts[kind].all.toLocaleString('en')}${counts[kind].takenBack > 0 && html` <span class="hint">${counts[kind].takenBack.toLocaleString('en')} taken back</span>`}</dd></div>`,
)}
</dl></section>
${progress?.isComplete && html`<p class="lead" role="status">${plural(progress.done, 'record')} taken back.</p>`}
${
  plan.steps.length > 0 &&
  isAdmin &&
  html`<section class="card" aria-labelledby="take-back"><h2 id="take-back">${progress === undefined ? 'Take this import back' : 'Taking this import back'}</h2>
<ul class="plain">
${payments > 0 && html`<li>${plural(payments, 'payment')} ${payments === 1 ? 'is' : 'are'} reversed.</li>`}
${invoices > 0 && html`<li>${plural(invoices, 'invoice')} ${invoices === 1 ? 'is' : 'are'} voided; waiting reminders are cancelled.</li>`}
${customers > 0 && html`<li>${plural(customers, 'customer')} ${customers === 1 ? 'is' : 'are'} archived.</li>`}
</ul>
<p>The numbers and external IDs of these records can be used again, so that you can import the corrected file. <strong>This cannot be undone.</strong></p>
<form method="post" action="${IMPORTS_PATH}/${row.id}/take-back" data-once${progress !== undefined && html` data-continue`}>${renderCommonHiddenFields(frame)}
${progress !== undefined && html`<input type="hidden" name="done" value="${progress.done}"><p role="status">${plural(progress.done, 'record')} taken back so far.</p>`}
<p class="row"><a class="button" href="${IMPORTS_PATH}">Cancel</a> <button class="danger solid">${progress === undefined ? 'Take back' : 'Continue'}</button></p></form></section>`
}
${plan.kept.length > 0 && renderKept(plan.kept)}
${progress?.isComplete && html`<p class="row"><a class="button primary" href="/settings/import">Import the corrected file</a></p>`}`
  return renderPage(frame, { title: `Import of ${row.file_name}`, section: SECTION, main })
}

function renderKept(kept: readonly KeptRecord[]): Html {
  const byReason = [...Map.groupBy(kept, ({ reason }) => reason)]
  return html`<section aria-labelledby="kept"><h2 id="kept">${plural(kept.length, 'record')} that cannot be taken back</h2>
${byReason.map(
  ([reason, records]) =>
    html`<section class="card"><h3>${REASON_WORDS[reason]}</h3>
<ul class="plain">${records.slice(0, KEPT_SHOWN_MAX).map(({ id, kind, name }) => html`<li><a href="${pathOf(id)}" translate="no">${name}</a> <span class="hint">${KIND_WORDS[kind].one}</span></li>`)}</ul>
${records.length > KEPT_SHOWN_MAX && html`<p class="hint">And ${(records.length - KEPT_SHOWN_MAX).toLocaleString('en')} more.</p>`}</section>`,
)}</section>`
}

/** Uses the prefix of the id, because a record of the kind `correction` is either a customer or an invoice. */
function pathOf(id: string): string {
  const kind = id.startsWith('deb_') ? 'customer' : id.startsWith('pay_') ? 'payment' : 'invoice'
  return `${KIND_WORDS[kind].path}/${id}`
}
