/** Computes and renders the figures of benchmarks. */

export function median(figures: readonly number[]): number {
  const sorted = figures.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** Returns the quantile of the figures, e.g. the p99 if the share is 0.99. */
export function quantile(figures: readonly number[], share: number): number {
  const sorted = figures.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}

/** Renders a Markdown table. The first columns, as many as `names`, name the row; the others contain figures. */
export function tableOf(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
  names = 1,
): string {
  // Even the separator line of an empty column needs a dash and a colon.
  const widths = columns.map((column, at) =>
    Math.max(2, column.length, ...rows.map((row) => row[at]?.length ?? 0)),
  )
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, at) => (at < names ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join(' | ')} |`
  const rule = `| ${widths.map((width, at) => (at < names ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`
  return [line(columns), rule, ...rows.map(line)].join('\n')
}

export function rounded(figure: number, digits = 0): string {
  if (Number.isNaN(figure)) return '–'
  return figure.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
}
