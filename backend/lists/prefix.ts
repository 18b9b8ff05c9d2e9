export interface TextRange {
  readonly from: string
  readonly before: string
}

/**
 * Returns the range of the texts that begin with the prefix. The prefix and the texts must be in lower case. In
 * contrast to `like`, a condition with a range can always use an index of the column. The upper limit, which is
 * excluded, is the prefix with U+10FFFF appended: this last code point of Unicode sorts after all others.
 *
 * Lower-casing turns the capital sigma into `ς` at the end of a word, and into `σ` elsewhere. If the prefix ends with
 * one of these letters, the range contains the texts with either letter: `ς` directly precedes `σ` in Unicode.
 */
export function prefixRange(prefix: string): TextRange {
  const stem = prefix.replace(/[ςσ]$/, '')
  const [first, last] = stem === prefix ? [prefix, prefix] : [`${stem}ς`, `${stem}σ`]
  return { from: first, before: `${last}\u{10ffff}` }
}
