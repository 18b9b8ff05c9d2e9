/** Sends several key look-ups as one request, which costs much less than one request for each look-up. */
import type { LookUpResult } from './look-up.ts'

/** Looks up the keys with these digests. Resolves with the results in the order of the digests. */
export type LookUpMany = (digests: readonly string[]) => Promise<readonly LookUpResult[]>

export interface WaitingLookUp {
  readonly digest: string
  resolve(result: LookUpResult): void
  reject(error: unknown): void
}

/** Never rejects. If the request fails, all look-ups are rejected; if a result is missing, only its look-up is. */
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
