/**
 * Builds the index with which MiniSearch searches the documentation: the sections of all pages except the start page.
 */
import MiniSearch from 'minisearch'
import { SETTINGS_PROBLEM_TYPES } from '../../shared/contract/problem.ts'
import type { Page } from './page.ts'

export interface Section {
  readonly href: string
  /** The title of the page; for an error code, also the status. */
  readonly page: string
  readonly title: string
  /** The text of the section, without examples. */
  readonly text: string
  /**
   * `assets/search.js` ranks sections by their kinds. The guide `going-live` has the kind `reference`, because it only
   * mentions subjects that other guides explain.
   */
  readonly kind: 'guide' | 'reference' | 'error' | 'settings_error'
}

/** Returns the serialized index for the browser. `assets/search.js` must use the same fields. */
export function buildSearchIndex(pages: readonly Page[]): string {
  const index = new MiniSearch<Section>({
    idField: 'href',
    fields: ['title', 'page', 'text'],
    storeFields: ['href', 'page', 'title', 'text', 'kind'],
  })
  index.addAll(sectionsOfPages(pages))
  return JSON.stringify(index)
}

function sectionsOfPages(pages: readonly Page[]): readonly Section[] {
  const [_startPage, ...others] = pages
  return others.flatMap(sectionsOf)
}

function kindOf(path: string): Section['kind'] {
  if (path === '/docs/errors') return 'error'
  return path === '/docs/reference' || path === '/docs/going-live' ? 'reference' : 'guide'
}

/** Splits a page at its headings of levels 1 to 3, as `renderHeading` renders them. */
function sectionsOf({ path, title: page, main }: Page): Section[] {
  const prose = main.text.replace(
    /<pre\b.*?<\/pre>|<summary>.*?<\/summary>|<a class="anchor".*?<\/a>/gs,
    '',
  )
  // Each section has three consecutive parts: its id, its title and its text.
  const parts = prose.split(/<h[1-3] id="([^"]+)">(.*?)<\/h[1-3]>/s).slice(1)
  const sections: Section[] = []
  const kind = kindOf(path)
  for (let at = 0; at < parts.length; at += 3) {
    const [id = '', title = '', text = ''] = parts.slice(at, at + 3)
    const href = at === 0 ? path : `${path}#${id}`
    const sectionText = textOf(text)
    // The text of an error's section begins with the status. In `page`, the status ranks higher than in the text.
    const [, status] = kind === 'error' ? (/^(\d{3}) · /.exec(sectionText) ?? []) : []
    const pageLabel = status === undefined ? page : `${page}, ${status}`
    const sectionKind = Object.hasOwn(SETTINGS_PROBLEM_TYPES, id) ? 'settings_error' : kind
    sections.push({
      href,
      page: pageLabel,
      title: textOf(title),
      text: sectionText,
      kind: sectionKind,
    })
  }
  return sections
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
}

/** Inline elements, such as `code`, may be part of a word, so their tags are not replaced by spaces. */
function textOf(markup: string): string {
  return markup
    .replace(/<\/?(?:code|a|em|strong|span)\b[^>]*>/g, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => ENTITIES[entity] ?? '')
    .replace(/\s+/g, ' ')
    .trim()
}
