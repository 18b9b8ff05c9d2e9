/** The limits of a range of texts. */
export interface TextRange {
  readonly from: string
  readonly before: string
}

/**
 * Returns the range of the lower-case texts that begin with the prefix. In contrast to `like`, a condition with a range
 * can always use an index of the column. The range ends with the last code point of Unicode, which sorts after all
 * others. In lower case, a sigma at the end of a word is `ς`, which directly precedes `σ` in Unicode. The prefix may
 * end within a word, so the range contains the texts with either letter.
 */
export function prefixRange(prefix: string): TextRange {
  const stem = prefix.replace(/[ςσ]$/, '')
  const [first, last] = stem === prefix ? [prefix, prefix] : [`${stem}ς`, `${stem}σ`]
  return { from: first, before: `${last}\u{10ffff}` }
}
