import { Problem } from '../../shared/contract/problem.ts'
import type { Reader } from '../database/database.ts'
import type { Call, Operation } from './operation.ts'
import { parametersOf, parseQuery } from './query.ts'

export interface ReadOptions {
  readonly operationId: string
  /** Returns the JSON, or undefined if the account has nothing with that id. */
  read(reader: Reader, call: Call): Promise<object | undefined>
}

/** The form of ids; any other text is the id of nothing. */
const ID = /^[a-z]+_[0-9A-Z]{26}$/

/** A GET of one object, without query parameters. */
export function readOperation({ operationId, read }: ReadOptions): Operation {
  return {
    operationId,
    async respond(call, { database }) {
      parseQuery({}, parametersOf(call.query))
      const mayExist = !call.path.includes('{id}') || ID.test(call.id)
      const found = mayExist ? await read(database.read, call) : undefined
      // The same response for malformed ids, unknown ones and those of other accounts.
      if (found === undefined) throw new Problem('not_found', 'There is nothing with this id.')
      return { status: 200, body: JSON.stringify(found), headers: {} }
    },
  }
}
