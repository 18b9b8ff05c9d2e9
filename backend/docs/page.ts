import type { Html } from '../html/html.ts'
import type { Heading } from './markup/markdown.ts'

export interface Page {
  readonly path: string
  readonly title: string
  /** One sentence for the list of pages. */
  readonly summary: string
  readonly main: Html
  readonly headings: readonly Heading[]
  /** The page's group in the list of pages. */
  readonly group?: string
  /** Whether samples are shown next to the text on wide screens. */
  readonly isWide?: true
}
