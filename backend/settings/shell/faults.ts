/** Throws the problems of Settings for records that do not exist and for invalid input. */
import { Problem } from '../../../shared/contract/problem.ts'

export function notFound(what: string, id: string): never {
  throw new Problem('not_found', `There is no ${what} ${id}.`)
}

/** Rejects an invalid form field or JSON member. */
export function invalid(field: string, detail: string): never {
  throw new Problem('validation_failed', detail, {
    members: { errors: [{ pointer: `/${field}`, code: 'invalid_format', detail }] },
  })
}
