/** What Settings refuses of what it was sent. */
import { Problem } from '../../../shared/contract/problem.ts'

export function notFound(what: string, id: string): never {
  throw new Problem('not_found', `There is no ${what} ${id}.`)
}

/** A field of a form, or member of a body, that is not as it must be. */
export function invalid(field: string, detail: string): never {
  throw new Problem('validation_failed', detail, {
    members: { errors: [{ pointer: `/${field}`, code: 'invalid_format', detail }] },
  })
}
