/**
 * Alternatives of which a reader wants one. As HTML they are sections that open one by one, so that they
 * work without a script; the script of the page makes tabs of them, and keeps the choice where `group`
 * is the same.
 */
import { type Html, html } from '../html/html.ts'

export interface Tab {
  readonly label: string
  readonly content: Html
}

export function renderTabs(group: string, label: string, tabs: readonly Tab[]): Html {
  return html`<div class="tabs" data-tabs="${group}" data-label="${label}">
${tabs.map(
  (tab, at) => html`<details${at === 0 && html` open`}><summary>${tab.label}</summary>
${tab.content}</details>
`,
)}</div>
`
}
