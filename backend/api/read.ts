import { Problem } from '../../shared/contract/problem.ts'
import type { Reader } from '../database/database.ts'
import type { Call, Operation, Target } from './operation.ts'
import { parametersOf, parseQuery } from './query.ts'

export interface ReadOptions<Found> {
  readonly operationId: string
  /**
   * Returns undefined if the account has no object with this id. To save time, `find` runs while the key is checked,
   * and its result is discarded if the key is rejected. It must therefore not have side effects.
   */
  find(reader: Reader, target: Target): Promise<Found | undefined>
  represent(found: Found, call: Call): object
}

const ID = /^[a-z]+_[0-9A-Z]{26}$/

/** Creates an operation that returns one object by its id and accepts no query parameters. */
export function readOperation<Found>(options: ReadOptions<Found>): Operation {
  const { operationId, find, represent } = options
  return {
    operationId,
    begin(target, { read }) {
      const finding = ID.test(target.id) ? find(read, target) : Promise.resolve(undefined)
      // If the key is rejected, nothing awaits the result: without this handler, an error would then be unhandled.
      finding.catch(() => {})
      return async (call) => {
        parseQuery({}, parametersOf(call.query))
        const found = await finding
        // Malformed ids, unknown ids and ids of other accounts get the same response.
        if (found === undefined) throw new Problem('not_found', 'There is nothing with this id.')
        return { status: 200, body: JSON.stringify(represent(found, call)), headers: {} }
      }
    },
  }
}
