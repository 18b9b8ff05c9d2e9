import type { Problem } from '../../../shared/contract/problem.ts'
import type { ApiKeyRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { InitialValues } from '../shell/fields.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderInitialValues,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import {
  type ExpiryAndAddresses,
  renderAddressField,
  renderExpiryField,
} from './restriction-fields.ts'

export interface EditView extends ExpiryAndAddresses {
  readonly row: ApiKeyRow
  /** The name that was entered, or the stored name if the form is shown for the first time. */
  readonly name: string
  /** The form sends these values too, so that saving it changes only the fields that the person has edited. */
  readonly stored: InitialValues
}

export function renderEditKey(frame: Frame, view: EditView, problem?: Problem): Html {
  const { row } = view
  const path = `/settings/api-keys/${row.id}`
  const main = html`<p class="back"><a href="${path}" translate="no">${row.name}</a></p>
<h1>Edit key</h1>
<p class="lead">Changes apply from the next call on. Permissions cannot be changed. If you need other permissions, issue a new key.</p>
${renderFaultSummary(problem)}
<form method="post" action="${path}" class="stack" data-once novalidate>
${renderCommonHiddenFields(frame)}${renderInitialValues(view.stored)}
<div class="card stack">
<p class="field"><label for="name">Name</label>
<input id="name" name="name" value="${view.name}" autocomplete="off" required data-count="80"${describedBy(problem, 'name', 'name-hint')}></p>
<p class="hint" id="name-hint">At most 80 characters. <span data-counter="name"></span></p>
${renderFieldFaults(problem, 'name')}
${renderExpiryField(view, problem, 'The expiry can only be moved to an earlier time.')}
${renderAddressField(view, problem)}
</div>
<p class="row"><button class="primary">Save</button> <a class="button" href="${path}">Cancel</a></p>
</form>`
  return renderPage(frame, { title: `Edit ${row.name}`, section: '/settings/api-keys', main })
}
