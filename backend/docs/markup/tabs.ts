/**
 * Renders alternatives, of which a reader needs one. Without scripts, they are sections that open separately;
 * the page's script turns them into tabs. For the group `language`, it applies a choice to all tabs.
 */
import { type Html, html } from '../../html/html.ts'

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
