/**
 * Shortens a text to `unitsMax` UTF-16 code units, without half of a character at its end: JSON parsers of some
 * languages reject a lone surrogate.
 */
export function truncate(text: string, unitsMax: number): string {
  return text.slice(0, unitsMax).replace(/[\ud800-\udbff]$/, '')
}
