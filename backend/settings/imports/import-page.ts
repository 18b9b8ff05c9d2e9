import type { Problem } from '../../../shared/contract/problem.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import { FIELD_NAMES, type FieldName, REQUIRED_FIELDS } from '../../import/columns.ts'
import { type Comparison, countMissing, type Totals } from '../../import/comparison.ts'
import type { Ledger } from '../../import/ledger.ts'
import type { OldInvoices } from '../../invoices/old-invoices.ts'
import { moneyText } from '../../money/money-text.ts'
import { renderOldInvoicesHint } from '../reminders/old-invoices.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderHidden,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { plural } from '../shell/words.ts'
import { AUTO, columnFieldOf, DATE_FORMATS, type ImportForm } from './import-form.ts'
import type { ComparedFile, RejectedRecord, StepResult } from './import-step.ts'

const PATH = '/settings/import'
const SECTION = '/settings/customers'

/** The maximum number of rows in each list of differences, changes or rejected records. */
const SHOWN_MAX = 50

const FIELD_WORDS: Readonly<Record<FieldName, string>> = {
  number: 'Invoice number',
  customer: 'Customer number',
  issued: 'Issued on',
  amount: 'Amount',
  due: 'Due on',
  settled: 'Paid on',
  name: 'Customer name',
  email: 'Customer e-mail',
  currency: 'Currency',
}

export function renderImportForm(frame: Frame, form: ImportForm, problem?: Problem): Html {
  const hasFile = form.content !== ''
  const main = html`<p class="back"><a href="${SECTION}">Customers</a></p>
<div class="heading"><h1>Import a file</h1><a class="button small" href="/settings/imports">Past imports</a></div>
<p class="lead">A CSV file with one invoice in each row. The import also creates the customers, and a payment for each invoice
that the file shows as paid. You see a preview before anything is recorded.</p>
${renderFaultSummary(problem)}
<form method="post" action="${PATH}" enctype="multipart/form-data" class="stack" data-once novalidate>${renderCommonHiddenFields(frame)}
<div class="card stack">
<p class="field"><label for="file">CSV file</label>
<input id="file" name="file" type="file" accept=".csv,text/csv,text/plain"${describedBy(problem, 'file', 'file-hint')}></p>
${hasFile && renderChosenFile(form)}
<p class="hint" id="file-hint">A UTF-8 file of at most 950 KB (some 10,000 invoices). The first line contains the headers. Columns are separated by commas, semicolons or tabs.</p>
<p class="field"><label for="date_format">Dates are written as</label>
<select id="date_format" name="date_format" required${describedBy(problem, 'date_format')}>
<option value="">Choose…</option>${DATE_FORMATS.map(
    (format) =>
      html`<option value="${format}"${attribute('selected', format === form.dateFormat)}>${format} (${exampleOf(format)})</option>`,
  )}</select></p>
${renderFieldFaults(problem, 'date_format')}
<p class="field"><label for="currency">Currency of the amounts</label>
<input id="currency" name="currency" value="${form.currency}" maxlength="3" class="tiny" autocomplete="off"${describedBy(problem, 'currency', 'currency-hint')}></p>
<p class="hint" id="currency-hint">For rows without a currency of their own.</p>
${renderFieldFaults(problem, 'currency')}
<p><label class="check"><input type="checkbox" name="decimal_comma" value="yes"${attribute('checked', form.isDecimalComma)}> <span>Amounts have a decimal comma, as in 1234,56</span></label></p>
<p><label class="check"><input type="checkbox" name="chase_overdue" value="yes"${attribute('checked', form.chaseOverdue)}> <span>Also send reminders about invoices that are already past due</span></label></p>
</div>
${form.headers.length > 0 ? renderColumns(form, problem) : undefined}
<p class="row"><button class="primary">Check the file</button> <a class="button" href="${SECTION}">Cancel</a></p>
</form>
${!hasFile && renderHeaderHelp()}`
  return renderPage(frame, { title: 'Import a file', section: SECTION, main })
}

/** HTML cannot preselect a file, so the script selects the file that was sent before. */
function renderChosenFile({ content, fileName }: ImportForm): Html {
  // HTML ignores the line break directly after `<textarea>`. Without this line break, HTML would ignore an empty first
  // line of the file.
  return html`<p class="hint" data-choose-again>Choose <span translate="no">${fileName}</span> again, or another file.</p>
<textarea hidden disabled data-chosen="file" data-name="${fileName}">
${content}</textarea>`
}

/** Returns an example date in which the day, the month and the year cannot be confused. */
function exampleOf(format: string): string {
  return format
    .replace('YYYY', '2026')
    .replace(/MM?/, (part) => '3'.padStart(part.length, '0'))
    .replace(/DD?/, '31')
}

function renderHeaderHelp(): Html {
  return html`<section class="card" aria-labelledby="columns-title"><h2 id="columns-title">Columns</h2>
<p>Columns are recognized by common headers, such as <code>Invoice number</code>, <code>Customer ID</code>, <code>Invoice date</code>,
<code>Due date</code>, <code>Amount</code>, <code>Paid on</code>, <code>Customer name</code>, <code>Email</code> and <code>Currency</code>.
If a column is not recognized by its header, you can choose it after you check the file. A file that was imported before can be
imported again: existing records are not recorded twice.</p></section>`
}

function renderColumns({ headers, columns }: ImportForm, problem: Problem | undefined): Html {
  return html`<fieldset class="card" id="columns" tabindex="-1"${describedBy(problem, 'columns')}><legend class="title">Columns</legend>
${renderFieldFaults(problem, 'columns')}
<div class="fields">${FIELD_NAMES.map((field) => {
    const id = columnFieldOf(field)
    const chosen = columns.get(field)
    const isRequired = REQUIRED_FIELDS.includes(field)
    return html`<div class="field"><label for="${id}">${FIELD_WORDS[field]}</label>
<select id="${id}" name="${id}"><option value="${AUTO}">Recognized by its header</option>${
      !isRequired &&
      html`<option value=""${attribute('selected', chosen === '')}>Not in the file</option>`
    }${headers.map((header) => html`<option value="${header}"${attribute('selected', header === chosen)}>${header}</option>`)}</select></div>`
  })}</div></fieldset>`
}

interface Preview {
  readonly form: ImportForm
  readonly ledger: Ledger
  readonly comparedFile: ComparedFile
  /**
   * The id of the import that the form starts. A form that is sent again continues the same import, which can therefore
   * be taken back as a whole.
   */
  readonly importId: string
}

export function renderImportPreview(frame: Frame, preview: Preview): Html {
  const { form, ledger, comparedFile, importId } = preview
  const { comparison, corrections } = comparedFile
  const { customers, invoices, payments } = countMissing(comparison)
  const count = customers + invoices + payments
  const hasWork = count + corrections.length > 0
  const main = html`<p class="back"><a href="${PATH}">Import a file</a></p>
<h1>Check <span translate="no">${form.fileName}</span></h1>
<p class="lead">Nothing is recorded yet. The file has ${plural(ledger.invoices.length, 'invoice')} of ${plural(ledger.customers.size, 'customer')}.</p>
<dl class="figures"><div><dt>New customers</dt><dd>${customers.toLocaleString('en')}</dd></div>
<div><dt>New invoices</dt><dd>${invoices.toLocaleString('en')}</dd></div>
<div><dt>New payments</dt><dd>${payments.toLocaleString('en')}</dd></div></dl>
<p class="hint">Columns: ${[...ledger.headers].map(([field, header], index) => html`${index > 0 && ', '}${FIELD_WORDS[field].toLowerCase()} from <span translate="no">“${header}”</span>`)}.</p>
${renderTotals(comparison)}
${renderDifferences(comparison)}
<form method="post" action="${PATH}" enctype="multipart/form-data" class="stack" data-once>${renderCommonHiddenFields(frame)}
${renderHiddenFields(form)}${renderHidden('import_id', importId)}
${
  corrections.length > 0 &&
  html`<section class="card" aria-labelledby="corrections"><h2 id="corrections">Records that the file would change</h2>
<ul class="plain">${corrections.slice(0, SHOWN_MAX).map(({ record, change }) => html`<li><span translate="no">${record}: ${change}</span></li>`)}</ul>
${renderMore(corrections.length)}
<p><label class="check"><input type="checkbox" name="correct" value="yes"> <span>Change ${plural(corrections.length, 'record')} to the values in the file</span></label></p></section>`
}
<p class="row">${
    hasWork
      ? html`<button class="primary" name="step" value="record">${count > 0 ? `Record ${plural(count, 'record')}` : 'Change the records'}</button>`
      : html`<strong>${
          comparison.differences.length === 0
            ? 'Everything in the file is already recorded.'
            : 'All invoices in the file exist already. The import cannot remove the differences.'
        }</strong>`
  }
<button name="step" value="edit">Change the options</button> <a class="button" href="${PATH}">Choose another file</a></p>
</form>`
  return renderPage(frame, { title: 'Check the file', section: SECTION, main })
}

interface Report {
  readonly form: ImportForm
  readonly ledger: Ledger
  readonly result: StepResult
  /** The number of records that earlier steps of this import created or changed. */
  readonly recordedBefore: number
  /**
   * The account's invoices, after this step, about which no reminders are sent because the invoices were already past
   * due when they were created.
   */
  readonly oldInvoices: OldInvoices
}

export function renderImportReport(frame: Frame, report: Report): Html {
  const { form, result, recordedBefore, oldInvoices } = report
  const { comparison, recorded, rejected, isLastStep } = result
  const missing = countMissing(comparison)
  const left = missing.customers + missing.invoices + missing.payments
  const done =
    recordedBefore + recorded.customers + recorded.invoices + recorded.payments + recorded.corrected
  const main = html`<p class="back"><a href="${SECTION}">Customers</a></p>
<h1>${isLastStep ? 'Imported' : 'Importing'} <span translate="no">${form.fileName}</span></h1>
${
  isLastStep
    ? html`<p class="lead" role="status">${plural(done, 'record')} recorded or changed${left > 0 && `, ${plural(left, 'record')} not recorded`}.</p>`
    : renderProgress(frame, report, done, left)
}
${rejected.length > 0 && renderRejected(rejected)}
${renderTotals(comparison)}
${renderDifferences(comparison)}
${
  isLastStep &&
  html`${renderOldInvoicesHint(oldInvoices)}<p class="row"><a class="button primary" href="/settings/customers">Customers</a>
<a class="button" href="/settings/invoices">Invoices</a> <a class="button" href="${PATH}">Import another file</a></p>
<section class="card" aria-labelledby="wrong"><h2 id="wrong">If something in the file was wrong</h2>
${result.importId !== undefined && html`<p><a class="button" href="/settings/imports/${result.importId}">Take this import back…</a></p>`}
<p>You can also correct the file and import it again. Existing records are not recorded twice; their names, e-mail addresses
and due dates can be changed to the values in the corrected file. To correct other mistakes, open the page of the record: credit
an invoice whose amount is too high, void an invoice that should not exist, or reverse a payment.</p></section>`
}`
  const title = isLastStep ? 'Imported' : 'Importing'
  return renderPage(frame, { title, section: SECTION, main })
}

/** With `data-continue`, the script presses the button immediately. */
function renderProgress(
  frame: Frame,
  { form, result: { importId, rejected } }: Report,
  done: number,
  left: number,
): Html {
  return html`<form method="post" action="${PATH}" enctype="multipart/form-data" class="card stack" data-once data-continue>${renderCommonHiddenFields(frame)}
${renderHiddenFields(form)}${form.correctsRecords && html`<input type="hidden" name="correct" value="yes">`}
<input type="hidden" name="recorded" value="${done}">
${rejected.length > 0 && renderHidden('refusals', JSON.stringify(rejected))}
${importId !== undefined && renderHidden('import_id', importId)}
<p role="status">${done.toLocaleString('en')} of ${(done + left).toLocaleString('en')} recorded.</p>
<progress max="${done + left}" value="${done}" aria-label="Records of the file"></progress>
<p><button class="primary" name="step" value="record">Continue</button></p></form>`
}

function renderHiddenFields(form: ImportForm): Html {
  return html`${renderHidden('file_name', form.fileName)}${renderHidden('date_format', form.dateFormat)}${renderHidden('currency', form.currency)}
${form.isDecimalComma && renderHidden('decimal_comma', 'yes')}${form.chaseOverdue && renderHidden('chase_overdue', 'yes')}
${[...form.columns].map(([field, header]) => renderHidden(columnFieldOf(field), header))}
<textarea name="file" hidden aria-hidden="true" tabindex="-1">
${form.content}</textarea>`
}

function renderTotals({ totals }: Comparison): Html {
  const row = (name: string, file: string, service: string) =>
    html`<tr><th scope="row" data-label="Total">${name}</th><td data-label="File" class="amount">${file}</td><td data-label="Account" class="amount">${service}</td></tr>`
  const money = (currency: string, amountOf: (totals: Totals) => bigint) => (sums: Totals) =>
    moneyText(Number(amountOf(sums)), currency)
  return html`${[...totals].map(([currency, { file, service }]) => {
    const rows: readonly [string, (sums: Totals) => string][] = [
      ['Invoices', (sums) => sums.invoices.toLocaleString('en')],
      ['Invoiced', money(currency, (sums) => sums.invoiced)],
      ['Payments', (sums) => sums.payments.toLocaleString('en')],
      ['Paid', money(currency, (sums) => sums.paid)],
      ['Open', money(currency, (sums) => sums.open)],
    ]
    return html`<table class="records ledger dense"><caption>Totals in ${currency}: the file compared with the account</caption>
<thead><tr><th scope="col">Total</th><th scope="col" class="amount">In the file</th><th scope="col" class="amount">In the account</th></tr></thead>
<tbody>${rows.map(([name, shown]) => row(name, shown(file), shown(service)))}</tbody></table>`
  })}`
}

function renderDifferences({ differences }: Comparison): Html | undefined {
  if (differences.length === 0) return undefined
  return html`<section aria-labelledby="differences"><h2 id="differences">${plural(differences.length, 'difference')}</h2>
<p class="hint">These records already exist, but differ from the file. The import can change only names, e-mail addresses and the due dates of open invoices, and only if you choose so.</p>
<table class="records ledger dense"><caption class="unseen">Differences</caption>
<thead><tr><th scope="col">Record</th><th scope="col">Field</th><th scope="col">In the file</th><th scope="col">In the account</th></tr></thead>
<tbody>${differences
    .slice(0, SHOWN_MAX)
    .map(
      ({ line, record, field, file, service }) =>
        html`<tr><th scope="row" data-label="Record">Line ${line}, <span translate="no">${record}</span></th><td data-label="Field">${field}</td><td data-label="File" translate="no">${file}</td><td data-label="Account" translate="no">${service}</td></tr>`,
    )}</tbody></table>${renderMore(differences.length)}</section>`
}

function renderRejected(rejected: readonly RejectedRecord[]): Html {
  return html`<section class="card" aria-labelledby="rejected"><h2 id="rejected">${plural(rejected.length, 'record')} could not be recorded</h2>
<ul class="plain">${rejected.slice(0, SHOWN_MAX).map(({ record, detail }) => html`<li><span translate="no">${record}</span>: ${detail}</li>`)}</ul>
${renderMore(rejected.length)}</section>`
}

function renderMore(count: number): Html | undefined {
  return count > SHOWN_MAX
    ? html`<p class="hint">And ${(count - SHOWN_MAX).toLocaleString('en')} more.</p>`
    : undefined
}
