import { Problem } from '../../../shared/contract/problem.ts'
import { isReadOnly } from '../../accounts/accounts.ts'
import type { Session } from '../../sessions/sessions.ts'
import { enteredValuesProblem } from '../../validation/field-errors.ts'

export function notFound(what: string, id: string): never {
  throw new Problem('not_found', `There is no ${what} ${id}.`)
}

/** Throws `validation_failed` for an invalid form field or JSON member. */
export function rejectField(field: string, detail: string, code = 'invalid_format'): never {
  throw enteredValuesProblem([{ pointer: `/${field}`, code, detail }])
}

/** Rejects changes to the records of a read-only account, as the API does. */
export function rejectIfReadOnly({ account }: Session): void {
  if (!isReadOnly(account.status)) return
  const state = account.status === 'trial_paused' ? 'on a paused trial' : account.status
  throw new Problem(
    'account_read_only',
    `This account is ${state}. Its customers, invoices and payments can be read, but not changed.`,
    { members: { account_status: account.status } },
  )
}

/**
 * The labels of a form's fields, by field name. The field of a nested JSON member has its path, e.g. `ladder/final`.
 */
export type Labels = Readonly<Record<string, string>>

/** The field that must be unique, by the code of a problem about a duplicate. Such a problem has no pointer. */
const DUPLICATE_FIELDS: Readonly<Record<string, string>> = {
  duplicate_external_id: 'external_id',
  duplicate_invoice_number: 'number',
}

/**
 * Rewrites the `errors` of the problem for a form. If the field of an error has a label, the pointer becomes the
 * field's name in the form, and the label replaces the name of the JSON member at the beginning of the detail. The
 * problem's own `detail` becomes the details of all its errors, joined by spaces. A problem about a duplicate gets one
 * error, about the field that must be unique.
 */
export function withFieldLabels(problem: Problem, labels: Labels): Problem {
  const duplicate = DUPLICATE_FIELDS[problem.code]
  if (duplicate !== undefined) {
    const detail = `${labels[duplicate] ?? duplicate} is already used by another record.`
    const errors = [{ pointer: `/${duplicate}`, code: problem.code, detail }]
    return new Problem(problem.code, detail, { members: { ...problem.members, errors } })
  }
  const errors = problem.members['errors']
  if (!Array.isArray(errors)) return problem
  const relabeled = errors.map((error) => {
    const path = String(error.pointer).slice(1)
    // The form may call a field by its path, e.g. `ladder/final`, or only by the last member of the path.
    const member = path.split('/').at(-1) ?? ''
    const field = labels[path] === undefined ? member : path
    const label = labels[field]
    const detail = String(error.detail)
    if (label === undefined) return error
    return {
      ...error,
      pointer: `/${field}`,
      detail: detail.startsWith(`${member} `) ? label + detail.slice(member.length) : detail,
    }
  })
  const detail = relabeled.map((error) => error.detail).join(' ')
  return new Problem(problem.code, detail, { members: { ...problem.members, errors: relabeled } })
}
