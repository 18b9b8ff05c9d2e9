/**
 * Returns the full stop of a sentence that ends with this text; '' if the text, e.g. the name of a company, ends with
 * one itself.
 */
export function fullStopAfter(text: string): '.' | '' {
  return text.endsWith('.') ? '' : '.'
}

export function withFullStop(text: string): string {
  return text + fullStopAfter(text)
}
