import { readFileSync } from 'node:fs'
import {
  PROBLEM_TYPES,
  problemType,
  SETTINGS_PROBLEM_TYPES,
} from '../../shared/contract/problem.ts'
import { type Html, html } from '../html/html.ts'
import { type ContractDocument, membersOf, textOf } from './document.ts'
import { renderCode } from './markup/highlight.ts'
import { renderHeading, renderMarkdown } from './markup/markdown.ts'
import type { Page } from './page.ts'
import { referencePage } from './reference.ts'

const GUIDES = new URL('../../docs/', import.meta.url)
/** The base URL in the guides. Rendering replaces it with the base URL of the installation. */
const GUIDES_BASE_URL = 'http://127.0.0.1:8080'

/** The guides in reading order. Other files of the folder are not served. */
const GUIDE_GROUPS: Readonly<Record<string, readonly string[]>> = {
  'Get started': ['first-call', 'authentication', 'testing', 'going-live'],
  Money: ['money', 'payments'],
  Syncing: ['pagination', 'syncing', 'rate-limits'],
  Reminders: ['messages'],
  Webhooks: ['webhooks'],
  Reference: ['errors', 'questions', 'clients', 'versioning', 'changelog', 'glossary', 'help'],
}

/** Returns all pages, the start page first. If a guide cannot be rendered, throws an `Error` that names the guide. */
export function docsPages(document: ContractDocument, baseUrl: string): readonly Page[] {
  const responses = errorResponses(document)
  const guides = Object.entries(GUIDE_GROUPS).flatMap(([group, names]) =>
    names.map((name) => ({ ...guidePage(name, baseUrl, responses), group })),
  )
  const reference = { ...referencePage(document, baseUrl), group: 'Reference' }
  return [startPage([...guides, reference]), ...guides, reference]
}

function guidePage(name: string, baseUrl: string, responses: ReadonlyMap<string, unknown>): Page {
  const text = readFileSync(new URL(`${name}.md`, GUIDES), 'utf8')
  const [, title, summary] = /^# (.+)\n\n((?:.+\n)+)/.exec(text) ?? []
  if (title === undefined || summary === undefined) {
    throw new Error(`docs/${name}.md must begin with a title and a paragraph`)
  }
  try {
    const markdown = text.replaceAll(GUIDES_BASE_URL, baseUrl)
    const { body, headings } = renderMarkdown(markdown, {
      afterHeading: (id) => renderErrorFacts(id, responses.get(id)),
    })
    return {
      path: `/docs/${name}`,
      title,
      summary: plainText(summary.trim()),
      main: body,
      headings,
    }
  } catch (cause) {
    throw new Error(`docs/${name}.md cannot be rendered: ${String(cause)}`, { cause })
  }
}

/** Returns the example responses in the OpenAPI document by error code. */
function errorResponses({ operations }: ContractDocument): ReadonlyMap<string, unknown> {
  const values = operations
    .flatMap(({ responses }) => responses)
    .flatMap(({ content }) => content?.examples ?? [])
    .map(({ value }) => [textOf(membersOf(value)['code']), value] as const)
  return new Map(values)
}

/** Renders the facts after a heading whose id is an error code; nothing after any other heading. */
function renderErrorFacts(headingId: string, response: unknown): Html {
  const code = ERROR_CODES.find((candidate) => candidate === headingId)
  if (code === undefined) return html``
  const { status, title, retryable } = problemType(code)
  return html`<p class="facts">${status} · ${title} · ${
    retryable ? 'The same call may succeed later.' : 'Repeating the same call does not help.'
  }</p>\n${
    response !== undefined &&
    html`<details class="more"><summary>Example response</summary>
${renderCode(JSON.stringify(response, null, 2), 'json')}</details>\n`
  }`
}

const ERROR_CODES = keysOf({ ...PROBLEM_TYPES, ...SETTINGS_PROBLEM_TYPES })

function keysOf<K extends string>(members: Readonly<Record<K, unknown>>): readonly K[] {
  return Object.keys(members).filter((key): key is K => key in members)
}

function startPage(pages: readonly Page[]): Page {
  const title = 'Receivables API'
  const summary =
    'Create and read customers and invoices, record payments, read the log of reminders and replies.'
  const main = html`${renderHeading({ depth: 1, id: 'receivables-api', text: title })}
<p class="lead">${summary}</p>
<ul class="cards">
${pages.map(
  (page) => html`<li><a href="${page.path}">${page.title}</a><p>${page.summary}</p></li>`,
)}
</ul>
<p>For machines: <a href="/docs/openapi.json">openapi.json</a>,
<a href="/docs/openapi.yaml">openapi.yaml</a>, <a href="/docs/receivables-api.ts">TypeScript types</a>,
<a href="/docs/receivables.postman_collection.json">a Postman collection</a>;
see <a href="/docs/clients">Clients and tools</a>.</p>`
  return { path: '/docs', title, summary, main, headings: [] }
}

function plainText(markdown: string): string {
  return markdown
    .replace(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .replaceAll(/[`*]/g, '')
    .replaceAll('\n', ' ')
}
