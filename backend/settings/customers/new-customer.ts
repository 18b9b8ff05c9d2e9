import type { Problem } from '../../../shared/contract/problem.ts'
import { recordAudit } from '../../accounts/audit.ts'
import { debtorBody, newDebtor } from '../../debtors/debtor-body.ts'
import { createDebtor } from '../../debtors/debtors.ts'
import { ADDRESS_PARTS, DETAIL_LABELS, DETAILS } from '../../debtors/details.ts'
import { representDebtor } from '../../debtors/representation.ts'
import { type Html, html } from '../../html/html.ts'
import { validateBody } from '../../validation/body.ts'
import type { JsonObject } from '../../validation/json.ts'
import {
  IDEMPOTENCY_KEY_FIELD,
  type OnceOptions,
  performOnce,
  renderIdempotencyKey,
} from '../forms/perform-once.ts'
import { rejectIfReadOnly, withFieldLabels } from '../shell/faults.ts'
import { type Fields, NO_FIELDS } from '../shell/fields.ts'
import { renderCommonHiddenFields, renderFaultSummary, renderPage } from '../shell/layout.ts'
import type { SessionPage } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { ADDRESS_FIELDS, CONTACT_FIELDS, type Field, renderField } from './customer-form-page.ts'

const PATH = '/settings/customers'
const ADMINS_ONLY = 'Only an Admin can add customers.'

const TERMS_AND_NUMBERS: readonly Field[] = [
  { name: 'currency', hint: 'For new invoices, e.g. EUR.' },
  {
    name: 'payment_terms_days',
    hint: 'Days until a new invoice is due. Leave empty to use the account’s payment terms.',
  },
  { name: 'external_id', hint: 'The customer’s ID in your own system, without spaces.' },
  { name: 'tax_id' },
  { name: 'company_number' },
]

const LABELS: Readonly<Record<string, string>> = {
  ...DETAIL_LABELS,
  currency: 'Currency',
  payment_terms_days: 'Payment terms',
  external_id: 'External ID',
  tax_id: 'Tax ID',
  company_number: 'Company number',
}

const TEXT_FIELDS = [
  ...DETAILS,
  ...ADDRESS_PARTS,
  'currency',
  'external_id',
  'tax_id',
  'company_number',
]

export const newCustomerPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: `${PATH}/new`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session }) {
      rejectIfReadOnly(session)
      return { page: (frame) => renderForm(frame, NO_FIELDS, undefined) }
    },
  },
  {
    method: 'POST',
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: { texts: [...TEXT_FIELDS, IDEMPOTENCY_KEY_FIELD], numbers: ['payment_terms_days'] },
    async handle(request, deps) {
      const { session, actionContext, now, fields } = request
      const { account } = session
      const response = await performOnce(request, deps, CREATION, async (tx) => {
        const input = newDebtor(validateBody(debtorBody, bodyOf(fields)))
        const owner = { accountId: account.id, isDemo: account.isDemo }
        const row = await createDebtor(tx, owner, input, now)
        await recordAudit(tx, actionContext, {
          accountId: account.id,
          action: 'debtor.created',
          subjectId: row.id,
          detail: { name: row.name },
        })
        // A new customer has no invoices, and therefore no balances.
        return representDebtor(row, [])
      })
      return { status: 201, ...response }
    },
    async rerender({ fields }, problem) {
      // In the form, a person can correct invalid and duplicate values, but not, for example, a reused idempotency key.
      if (![409, 422].includes(problem.status) || problem.code.startsWith('idempotency')) {
        return undefined
      }
      const labeled = withFieldLabels(problem, LABELS)
      return (frame) => renderForm(frame, fields, labeled)
    },
  },
]

const CREATION: OnceOptions = {
  operation: 'settings.createDebtor',
  flash: 'customer_created',
  location: (id: string) => `${PATH}/${id}`,
}

/**
 * Empty fields are omitted. Payment terms that are not a whole number become -1, which the validation of the body
 * rejects.
 */
function bodyOf(fields: Fields): JsonObject {
  const isAddress = (name: string) => ADDRESS_PARTS.some((part) => part === name)
  const address = fields.filledTexts(ADDRESS_PARTS)
  const days = fields.number('payment_terms_days')
  return {
    ...fields.filledTexts(TEXT_FIELDS.filter((name) => !isAddress(name))),
    ...(Object.keys(address).length > 0 && { address }),
    ...(days !== null && { payment_terms_days: Number.isNaN(days) ? -1 : days }),
  }
}

function renderForm(frame: Frame, fields: Fields, problem: Problem | undefined): Html {
  const renderInput = (field: Field) =>
    renderField(field, LABELS[field.name] ?? field.name, fields.text(field.name), problem)
  const main = html`<p class="back"><a href="${PATH}">Customers</a></p>
<h1>Add a customer</h1>
${renderFaultSummary(problem)}
<form method="post" action="${PATH}" class="card stack" data-once novalidate>${renderCommonHiddenFields(frame)}${renderIdempotencyKey(fields)}
<div class="pair">
<fieldset class="stack"><legend class="title">Contact</legend>${CONTACT_FIELDS.map(renderInput)}</fieldset>
<div><fieldset class="stack"><legend class="title">Address</legend>${ADDRESS_FIELDS.map(renderInput)}</fieldset></div>
</div>
<details${problem !== undefined && html` open`}><summary>Terms and numbers</summary><div class="fields">${TERMS_AND_NUMBERS.map(renderInput)}</div></details>
<p class="row"><button class="primary">Add customer</button> <a class="button" href="${PATH}">Cancel</a></p>
</form>`
  return renderPage(frame, { title: 'Add a customer', section: PATH, main })
}
