import type { Html } from '../html/html.ts'
import type { Heading } from './markup/markdown.ts'

/** A page of the documentation. */
export interface Page {
  /** The path of its URL, e.g. `/docs/payments`. */
  readonly path: string
  readonly title: string
  /** One sentence for the list of pages on the start page, and for search engines. */
  readonly summary: string
  readonly main: Html
  readonly headings: readonly Heading[]
  /** The heading of the menu below which the page is listed; absent for the start page, which the menu lists first. */
  readonly group?: string
  /** Whether wide screens show the page's code samples next to its text. */
  readonly isWide?: true
}
