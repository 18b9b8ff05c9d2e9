/**
 * HTML as a tagged template that escapes whatever is put into it. Fifty lines of our own in place of
 * an engine: types reach into every page, nothing is parsed at run time, and there is one way only
 * to put text in unescaped, which no page has a reason to use.
 */

export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** Nothing is shown of undefined, null and booleans. */
type Part = Html | string | number | boolean | null | undefined | readonly Part[]

export function html(texts: TemplateStringsArray, ...parts: readonly Part[]): Html {
  const [first = '', ...rest] = texts
  return new Html(rest.reduce((text, next, at) => text + render(parts[at]) + next, first))
}

/** An attribute that is there or not, e.g. `checked`. */
export function attribute(name: string, isThere: boolean): Html {
  return new Html(isThere ? ` ${name}` : '')
}

/** In order, with nothing between them. */
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

/** For text and for attributes in either kind of quotes. */
function escapeText(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '')
}
