import { type Html, html } from '../html/html.ts'
import type { Asset } from './assets.ts'
import type { Heading } from './markup/markdown.ts'
import type { Page } from './page.ts'

/** The parts that all pages share. */
export interface Site {
  /** The pages in reading order. The first one is the start page. */
  readonly pages: readonly Page[]
  readonly stylesheet: Asset
  readonly script: Asset
  readonly search: { readonly index: Asset; readonly script: Asset; readonly library: Asset }
}

export function renderLayout(page: Page, site: Site): string {
  const { pages, stylesheet, script, search } = site
  const [start] = pages
  const title = page === start ? page.title : `${page.title} · Receivables API`
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="${page.summary}">
<title>${title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${stylesheet.path}">
<script type="module" src="${script.path}"></script>
</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header class="top">
<a class="brand" href="/docs">Receivables API</a>
<search hidden data-index="${search.index.path}" data-script="${search.script.path}" data-library="${search.library.path}">
<label for="search">Search</label> <kbd aria-hidden="true">/</kbd>
<input id="search" type="search" autocomplete="off" spellcheck="false" aria-describedby="found">
<div class="found">
<p id="found" role="status"></p>
<ul id="results"></ul>
</div>
</search>
<a class="settings-link" href="/settings">Settings</a>
<p class="unseen" role="status" id="copy-status"></p>
</header>
<div class="columns"${page.isWide && html` data-wide`}>
<details class="menu" open>
<summary>Contents</summary>
<nav aria-label="Documentation">
${[...Map.groupBy(pages, ({ group }) => group ?? '')].map(
  ([
    group,
    members,
  ]) => html`${group !== '' && html`<p class="group" id="${groupIdOf(members)}">${group}</p>`}
<ul${group !== '' && html` aria-labelledby="${groupIdOf(members)}"`}>
${members.map((other) => renderEntry(other, other === page))}
</ul>
`,
)}</nav>
</details>
<main id="main" tabindex="-1">
${page.main}
${renderAdjacentPages(page, pages)}
</main>
</div>
</body>
</html>
`.text
}

function groupIdOf([first]: readonly Page[]): string {
  return `group-${first?.path.slice('/docs/'.length)}`
}

function renderAdjacentPages(page: Page, pages: readonly Page[]): Html | undefined {
  const at = pages.indexOf(page)
  // The start page has no such links. The not-found page is not in `pages`.
  if (at < 1) return undefined
  const [previous, next] = [pages[at - 1], pages[at + 1]]
  return html`<nav class="adjacent-pages" aria-label="Previous and next page">
${previous && html`<a rel="prev" href="${previous.path}">← ${previous.title}</a>`}
${next && html`<a rel="next" href="${next.path}">${next.title} →</a>`}
</nav>`
}

function renderEntry(page: Page, isCurrent: boolean): Html {
  return html`<li><a href="${page.path}"${isCurrent && html` aria-current="page"`}>${page.title}</a>
${isCurrent && renderSections(page.headings)}</li>`
}

function renderSections(headings: readonly Heading[]): Html | undefined {
  const sections = headings.filter(({ depth }) => depth === 2)
  if (sections.length === 0) return undefined
  return html`<ul>
${sections.map((section, at) => {
  const from = headings.indexOf(section) + 1
  const next = sections[at + 1]
  const to = next === undefined ? headings.length : headings.indexOf(next)
  const parts = headings.slice(from, to).filter(({ depth }) => depth === 3)
  return html`<li>${renderLink(section)}${
    parts.length > 0 && html`<ul>${parts.map((part) => html`<li>${renderLink(part)}</li>`)}</ul>`
  }</li>`
})}
</ul>`
}

function renderLink({ id, text }: Heading): Html {
  return html`<a href="#${id}">${text}</a>`
}

export function renderNotFoundPage(site: Site): string {
  const main = html`<h1>There is no such page</h1>
<p>See the list of pages, or go to the <a href="/docs">start page</a>.</p>`
  const page = { path: '', title: 'No such page', summary: '', main, headings: [] }
  return renderLayout(page, site)
}
