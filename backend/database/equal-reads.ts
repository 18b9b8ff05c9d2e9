/** Reads with the same SQL text and equal parameters are sent to the database once. */

type Parameters = readonly unknown[]

export interface DistinctReads {
  readonly distinct: readonly Parameters[]
  /** For each read, the index of its parameters in `distinct`. */
  readonly placeOf: readonly number[]
}

/** Many reads have the same parameters, e.g. the reads of a key that is used by concurrent calls. */
export function distinctReads(reads: readonly Parameters[]): DistinctReads {
  const places = new Map<string, number>()
  const distinct: Parameters[] = []
  const placeOf = reads.map((parameters) => {
    const text = JSON.stringify(parameters)
    const place = places.get(text) ?? distinct.push(parameters) - 1
    places.set(text, place)
    return place
  })
  return { distinct, placeOf }
}

/** Returns how many of the first reads have at most `distinctMax` different parameters. */
export function countSharing(
  reads: readonly { readonly parameters: Parameters }[],
  { distinctMax, readsMax }: { readonly distinctMax: number; readonly readsMax: number },
): number {
  const texts = new Set<string>()
  const candidates = reads.slice(0, readsMax)
  const end = candidates.findIndex(
    ({ parameters }) => texts.add(JSON.stringify(parameters)).size > distinctMax,
  )
  return end === -1 ? candidates.length : end
}
