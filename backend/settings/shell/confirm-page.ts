/**
 * Renders a confirmation page. If a link to it has the attribute `data-dialog-page`, `dialogs.js` shows the card of the
 * page in a dialog.
 */
import type { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import { renderCommonHiddenFields, renderFaultSummary, renderPage } from './layout.ts'
import type { Frame } from './response.ts'

export interface Confirmation {
  readonly title: string
  /** The path of the link that the navigation highlights. */
  readonly section: string
  /** The page to which the link at the top and the Cancel link lead. */
  readonly back: { readonly path: string; readonly name: string }
  readonly consequences: Html
  readonly action: string
  readonly button: string
  readonly isDangerous?: boolean
  /** The fields of the form, with their labels and error messages. */
  readonly fields?: Html
  readonly problem?: Problem | undefined
}

export function renderConfirmPage(frame: Frame, confirmation: Confirmation): Html {
  const { title, section, back, consequences, action, button, isDangerous, fields } = confirmation
  const main = html`<p class="back"><a href="${back.path}">${back.name}</a></p>
<div class="narrow card" data-dialog-content>
<h1 id="confirm-title">${title}</h1>
${renderFaultSummary(confirmation.problem)}
<div id="confirm-text">${consequences}</div>
<form method="post" action="${action}" class="stack" data-once novalidate>
${renderCommonHiddenFields(frame)}
${fields}
<p class="row"><a class="button" href="${back.path}" data-cancel>Cancel</a>
<button class="${isDangerous ? 'danger solid' : 'primary'}">${button}</button></p>
</form>
</div>`
  return renderPage(frame, { title, section, main })
}
