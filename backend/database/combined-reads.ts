/**
 * Helps to combine reads into one statement, if they wait at the same time and have the same SQL text. Reads with equal
 * parameters are run only once.
 */

type Parameters = readonly unknown[]

export interface DistinctReads {
  readonly distinct: readonly Parameters[]
  /** For each read, the index of its parameters in `distinct`. */
  readonly distinctIndexes: readonly number[]
}

/**
 * Returns each list of parameters once. Many reads have equal parameters, e.g. the reads of a key that concurrent calls
 * use.
 */
export function distinctReads(reads: readonly Parameters[]): DistinctReads {
  const indexes = new Map<string, number>()
  const distinct: Parameters[] = []
  const distinctIndexes = reads.map((parameters) => {
    const text = JSON.stringify(parameters)
    const index = indexes.get(text) ?? distinct.push(parameters) - 1
    indexes.set(text, index)
    return index
  })
  return { distinct, distinctIndexes }
}

/**
 * Returns how many reads, from the first, may be combined in one statement: at most `readsMax`, with at most
 * `distinctMax` different lists of parameters.
 */
export function countCombinable(
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

/**
 * Compiles a function that builds a row object from the values of its columns, which were parsed from JSON. A loop over
 * the columns would take ten times as long, and longer than parsing the JSON.
 *
 * `expressionOf` returns the JavaScript expression for a column's value. The expression may use the parameters of the
 * compiled function: `values` (the values of one row or of all rows) and `index` (the index of the row). Data never
 * becomes part of the compiled text, which contains only the names of columns and these expressions.
 *
 * The compiled function is declared to return `never`, which can be assigned to the row type of every caller.
 */
export function compileRow<Values>(
  columns: readonly string[],
  expressionOf: (column: number) => string,
): (values: Values, index: number) => never {
  const members = columns.map((name, at) => `${JSON.stringify(name)}: ${expressionOf(at)}`)
  // A function made of text has no parameter types.
  return new Function('values', 'index', `return { ${members} }`) as ReturnType<
    typeof compileRow<Values>
  >
}
