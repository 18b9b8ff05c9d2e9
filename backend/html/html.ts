/** Builds HTML with a tagged template that escapes all values except instances of `Html`. */

export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** Undefined, null and booleans render as nothing. */
type Part = Html | string | number | boolean | null | undefined | readonly Part[]

export function html(texts: TemplateStringsArray, ...parts: readonly Part[]): Html {
  const [first = '', ...rest] = texts
  return new Html(rest.reduce((text, next, at) => text + render(parts[at]) + next, first))
}

/** Returns a boolean attribute such as `checked`, or nothing. */
export function attribute(name: string, isPresent: boolean): Html {
  return new Html(isPresent ? ` ${name}` : '')
}

function render(part: Part): string {
  if (part instanceof Html) return part.text
  if (typeof part === 'string') return escapeText(part)
  if (typeof part === 'number') return String(part)
  return Array.isArray(part) ? part.map(render).join('') : ''
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Escapes for text, and for attributes in single or double quotes. */
function escapeText(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '')
}
