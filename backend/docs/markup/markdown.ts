/**
 * Renders the Markdown of guides and of descriptions in the OpenAPI document as HTML. HTML and images in the text are
 * errors.
 */
import { Marked, type Token, type Tokens } from 'marked'
import { Html, html } from '../../html/html.ts'
import { renderCode } from './highlight.ts'
import { renderTabs } from './tabs.ts'

export interface Heading {
  readonly depth: number
  readonly id: string
  readonly text: string
}

export interface RenderedMarkdown {
  readonly body: Html
  readonly headings: readonly Heading[]
}

export interface MarkdownOptions {
  /** The number of levels by which headings are lowered, for a text that is placed below a heading of the page. */
  readonly lowerHeadingsBy?: number
  /** Returns HTML to insert after the heading with this id. */
  readonly afterHeading?: (id: string) => Html
}

export function renderMarkdown(text: string, options: MarkdownOptions = {}): RenderedMarkdown {
  const { lowerHeadingsBy = 0, afterHeading } = options
  const headings: Heading[] = []
  const slug = createSlugs()
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text: source }: Tokens.Heading) {
        const plain = source.replaceAll('`', '')
        const heading = { depth: depth + lowerHeadingsBy, id: slug(plain), text: plain }
        headings.push(heading)
        const inner = new Html(this.parser.parseInline(tokens))
        return renderHeading(heading, inner).text + (afterHeading?.(heading.id).text ?? '')
      },
      code({ text: code, lang }: Tokens.Code) {
        return renderCode(code, lang ?? 'text').text
      },
      link({ href, tokens }: Tokens.Link) {
        const inner = new Html(this.parser.parseInline(tokens))
        return html`<a href="${publicAddress(href)}">${inner}</a>`.text
      },
      // The roles are explicit, because on small screens each row is displayed as a block, which removes the
      // implicit roles.
      table({ header, rows }: Tokens.Table) {
        const names = header.map(({ tokens }) => new Html(this.parser.parseInline(tokens)))
        const labels = header.map(({ text: label }) => label.replaceAll('`', ''))
        return html`<table role="table">
<thead role="rowgroup"><tr role="row">${names.map((name) =>
          name.text === ''
            ? html`<td role="cell"></td>`
            : html`<th role="columnheader">${name}</th>`,
        )}</tr></thead>
<tbody role="rowgroup">
${rows.map(
  (row) =>
    html`<tr role="row">${row.map(
      ({ tokens }, at) =>
        html`<td role="cell"${labels[at] !== '' && html` data-label="${labels[at]}"`}>${new Html(this.parser.parseInline(tokens))}</td>`,
    )}</tr>\n`,
)}</tbody>
</table>\n`.text
      },
      html({ text: source }: Tokens.HTML | Tokens.Tag) {
        throw new Error(`HTML in Markdown: ${source}`)
      },
      image({ href }: Tokens.Image) {
        throw new Error(`an image in Markdown: ${href}`)
      },
    },
  })
  const body = groupsOf(marked.lexer(text)).map((group) =>
    group.length > 1 && group.every(isProgram)
      ? renderPrograms(group)
      : new Html(marked.parser([...group])),
  )
  return { body: html`${body}`, headings }
}

/** The display names of the languages in which the guides show the same program. */
const PROGRAM_LANGUAGES: Readonly<Record<string, string>> = {
  js: 'JavaScript',
  python: 'Python',
  php: 'PHP',
  ruby: 'Ruby',
  go: 'Go',
}

function isProgram(token: Token): token is Tokens.Code {
  return token.type === 'code' && PROGRAM_LANGUAGES[token['lang']] !== undefined
}

/** Groups adjacent programs: these show the same program in several languages, and become tabs. */
function groupsOf(tokens: readonly Token[]): readonly (readonly Token[])[] {
  const groups: Token[][] = []
  for (const token of tokens.filter(({ type }) => type !== 'space')) {
    const last = groups.at(-1)
    if (last?.every(isProgram) && isProgram(token)) last.push(token)
    else groups.push([token])
  }
  return groups
}

function renderPrograms(programs: readonly Tokens.Code[]): Html {
  const tabs = programs.map(({ text, lang = '' }) => ({
    label: PROGRAM_LANGUAGES[lang] ?? lang,
    content: renderCode(text, lang),
  }))
  return renderTabs('language', 'Programming language', tabs)
}

/** Renders a heading with a link to itself, which the title of a page (depth 1) does not need. */
export function renderHeading({ depth, id, text }: Heading, inner: Html = html`${text}`): Html {
  const tag = new Html(`h${depth}`)
  const link = html`<a class="anchor" href="#${id}" aria-label="Link to ${text}">#</a>`
  return html`<${tag} id="${id}">${inner}${depth > 1 ? link : ''}</${tag}>\n`
}

/** Creates ids as GitHub does, so that links also work in the repository. */
function createSlugs(): (text: string) => string {
  const counts = new Map<string, number>()
  return (text) => {
    const slug = text
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-')
    const usesBefore = counts.get(slug) ?? 0
    counts.set(slug, usesBefore + 1)
    return usesBefore === 0 ? slug : `${slug}-${usesBefore}`
  }
}

/**
 * Returns the address that a link has on the pages. In Markdown, a link to another guide or to the OpenAPI document is
 * a relative path, so that it also works in the repository.
 */
function publicAddress(href: string): string {
  if (/^(?:https?:|#|\/)/.test(href)) return href
  const [, name, fragment = ''] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? []
  if (name !== undefined) return `/docs/${name}${fragment}`
  if (href === '../shared/contract/openapi.yaml') return '/docs/openapi.yaml'
  throw new Error(`a link to an unknown target: ${href}`)
}
