import { Problem } from '../../shared/contract/problem.ts'
import type { Reader } from '../database/database.ts'
import type { Call, Operation } from './operation.ts'
import { parametersOf, parseQuery } from './query.ts'

export interface ReadOptions {
  readonly operationId: string
  /** The representation; undefined: there is nothing of that id in the account. */
  read(reader: Reader, call: Call): Promise<object | undefined>
}

/** What ids look like; whatever else a path holds is the id of nothing. */
const ID = /^[a-z]+_[0-9A-Z]{26}$/

/** GET of one thing. Takes no query parameters. */
export function readOperation({ operationId, read }: ReadOptions): Operation {
  return {
    operationId,
    async answer(call, { database }) {
      parseQuery({}, parametersOf(call.query))
      const mayExist = !call.path.includes('{id}') || ID.test(call.id)
      const found = mayExist ? await read(database.read, call) : undefined
      // One answer for ids that are malformed, absent and another account's.
      if (found === undefined) throw new Problem('not_found', 'There is nothing with this id.')
      return { status: 200, body: JSON.stringify(found), headers: {} }
    },
  }
}
