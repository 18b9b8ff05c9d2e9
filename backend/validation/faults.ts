import {
  type FieldError,
  PROBLEM_TYPES,
  Problem,
  type ProblemCode,
} from '../../shared/contract/problem.ts'

/**
 * The fault of one field. A violated business rule has its own problem code, e.g. `invoice_not_found`. The
 * detail is a sentence without full stop, from which the detail of the whole problem is made.
 */
export type Fault = FieldError

/**
 * More faults than any real body has. This limits the response to a body with thousands of unknown fields.
 */
const LISTED_MAX = 1000

/**
 * Returns the 422 for all faults of a body. If all of them violate the same business rule, the problem has
 * that rule's code; otherwise it is `validation_failed`. `members` belong to the rule, e.g. `amount_due`.
 */
export function faultsProblem(
  faults: readonly Fault[],
  members: Readonly<Record<string, unknown>> = {},
): Problem {
  const [first] = faults
  const detail =
    faults.length === 1 && first !== undefined
      ? `At ${first.pointer}: ${first.detail}.`
      : `${faults.length} fields are wrong; errors names each of them.`
  const errors = faults
    .slice(0, LISTED_MAX)
    .map((fault) => ({ ...fault, detail: `${fault.detail}.` }))
  if (first !== undefined && faults.every(({ code }) => code === first.code)) {
    if (isProblemCode(first.code)) {
      return new Problem(first.code, detail, { members: { errors, ...members } })
    }
  }
  return new Problem('validation_failed', detail, { members: { errors } })
}

function isProblemCode(code: string): code is ProblemCode {
  return Object.hasOwn(PROBLEM_TYPES, code)
}
