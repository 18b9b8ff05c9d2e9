/** What the search looks through: the sections of all pages, in their order. */
import type { Page } from './page.ts'

export interface Section {
  readonly href: string
  /** The page's title. */
  readonly page: string
  readonly title: string
  /** What it says, without examples. */
  readonly text: string
}

export function searchSections(pages: readonly Page[]): readonly Section[] {
  return pages.slice(1).flatMap(sectionsOf)
}

/** A page's HTML is ours: every heading is written in one way, by `renderHeading`. */
function sectionsOf({ path, title: page, main }: Page): Section[] {
  const prose = main.text.replace(
    /<pre\b.*?<\/pre>|<summary>.*?<\/summary>|<a class="anchor".*?<\/a>/gs,
    '',
  )
  const parts = prose.split(/<h[1-3] id="([^"]+)">(.*?)<\/h[1-3]>/s).slice(1)
  const sections: Section[] = []
  for (let at = 0; at + 2 < parts.length + 1; at += 3) {
    const [id = '', title = '', text = ''] = parts.slice(at, at + 3)
    const href = at === 0 ? path : `${path}#${id}`
    sections.push({ href, page, title: textOf(title), text: textOf(text) })
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

function textOf(markup: string): string {
  return markup
    .replace(/<\/?(?:code|a|em|strong|span)\b[^>]*>/g, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => ENTITIES[entity] ?? '')
    .replace(/\s+/g, ' ')
    .trim()
}
