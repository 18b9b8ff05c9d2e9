/** Several look-ups that are sent as one request, which costs much less than a request for each. */
import type { LookUpResult } from './look-up.ts'

/** Resolves with the results in the order of the digests. */
export type LookUpMany = (digests: readonly string[]) => Promise<readonly LookUpResult[]>

export interface WaitingLookUp {
  readonly digest: string
  resolve(result: LookUpResult): void
  reject(error: unknown): void
}

/** Sends the look-ups as one request, and settles each of them. Never rejects. */
export async function sendBatch(
  lookUps: readonly WaitingLookUp[],
  lookUpMany: LookUpMany,
): Promise<void> {
  try {
    const results = await lookUpMany(lookUps.map(({ digest }) => digest))
    for (const [index, lookUp] of lookUps.entries()) {
      const result = results[index]
      if (result === undefined) lookUp.reject(new Error('a look-up has no result'))
      else lookUp.resolve(result)
    }
  } catch (error) {
    for (const lookUp of lookUps) lookUp.reject(error)
  }
}
