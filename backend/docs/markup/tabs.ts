/**
 * Renders alternatives, e.g. a sample in several languages, as sections, which `docs.js` turns into tabs. If the reader
 * chooses a tab of the group `language`, all samples show this language. `ariaLabel` names the tabs for screen readers.
 */
import { type Html, html } from '../../html/html.ts'

export interface Tab {
  readonly label: string
  readonly content: Html
}

export function renderTabs(group: string, ariaLabel: string, tabs: readonly Tab[]): Html {
  return html`<div class="tabs" data-tabs="${group}" data-label="${ariaLabel}">
${tabs.map(
  (tab, at) => html`<details${at === 0 && html` open`}><summary>${tab.label}</summary>
${tab.content}</details>
`,
)}</div>
`
}
