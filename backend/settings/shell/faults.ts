/** Throws the problems of Settings for records that do not exist and for invalid input. */
import { Problem } from '../../../shared/contract/problem.ts'
import { enteredValuesProblem } from '../../validation/field-errors.ts'

export function notFound(what: string, id: string): never {
  throw new Problem('not_found', `There is no ${what} ${id}.`)
}

/** Rejects an invalid form field or JSON member. */
export function invalid(field: string, detail: string, code = 'invalid_format'): never {
  throw enteredValuesProblem([{ pointer: `/${field}`, code, detail }])
}
