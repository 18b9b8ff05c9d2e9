import {
  type FieldError,
  PROBLEM_TYPES,
  Problem,
  type ProblemCode,
} from '../../shared/contract/problem.ts'

export type { FieldError }

/** A body may have thousands of unknown fields. The response lists only the first errors, to limit its size. */
const LISTED_MAX = 1000

/**
 * Returns the 422 with the first `LISTED_MAX` errors of a body. If all errors violate the same business rule, the
 * problem has the code of this rule and the additional `members`, e.g. `amount_due`. Otherwise its code is
 * `validation_failed`. Callers pass each detail without a full stop; this function adds it.
 */
export function fieldErrorsProblem(
  errors: readonly FieldError[],
  members: Readonly<Record<string, unknown>> = {},
): Problem {
  const [first] = errors
  const listed = errors
    .slice(0, LISTED_MAX)
    .map((error) => ({ ...error, detail: `${error.detail}.` }))
  const listedWords = listed.length < errors.length ? `The first ${listed.length}` : 'They'
  const detail =
    errors.length === 1 && first !== undefined
      ? `At ${first.pointer}: ${first.detail}.`
      : `${errors.length} fields are wrong. ${listedWords} are listed in errors.`
  if (first !== undefined && errors.every(({ code }) => code === first.code)) {
    if (isProblemCode(first.code)) {
      return new Problem(first.code, detail, { members: { errors: listed, ...members } })
    }
  }
  return new Problem('validation_failed', detail, { members: { errors: listed } })
}

/**
 * Returns the 422 for values that a person has entered. The detail of each error is a whole sentence, which pages show.
 */
export function enteredValuesProblem(errors: readonly FieldError[]): Problem {
  const detail = errors.map((error) => error.detail).join(' ')
  return new Problem('validation_failed', detail, { members: { errors } })
}

function isProblemCode(code: string): code is ProblemCode {
  return Object.hasOwn(PROBLEM_TYPES, code)
}
