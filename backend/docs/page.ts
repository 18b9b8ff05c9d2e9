import type { Html } from '../html/html.ts'
import type { Heading } from './markup/markdown.ts'

export interface Page {
  /** The path of its URL, e.g. `/docs/payments`. */
  readonly path: string
  readonly title: string
  /** Some sentences for the list of pages on the start page, and for search engines. */
  readonly summary: string
  readonly main: Html
  readonly headings: readonly Heading[]
  /** The group in the menu to which the page belongs; absent for the start page, which the menu lists first. */
  readonly group?: string
  /** Whether wide screens show the page's code samples next to its text. */
  readonly isWide?: true
}
