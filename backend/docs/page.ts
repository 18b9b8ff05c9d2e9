import type { Html } from '../html/html.ts'
import type { Heading } from './markdown.ts'

export interface Page {
  readonly path: string
  readonly title: string
  /** One sentence, for the list of pages. */
  readonly summary: string
  readonly main: Html
  readonly headings: readonly Heading[]
  /** What the list of pages has it under. */
  readonly group?: string
  /** Whether samples stand beside the text where there is room. */
  readonly isWide?: true
}
