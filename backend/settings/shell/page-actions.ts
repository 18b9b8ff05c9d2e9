/** Buttons for actions on the record that a page shows. If an action needs a reason, its button opens a form. */
import type { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import type { Fields } from './fields.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
} from './layout.ts'
import type { Frame } from './response.ts'

export interface PageAction {
  /** The last segment of the path to which the form is sent. */
  readonly name: string
  /** The label of the button that sends the form, and of the button that opens the form of an action with a reason. */
  readonly title: string
  /** What the action will do, shown above the reason. */
  readonly hint: string
  readonly isDangerous?: boolean
  /** Renders fields before the reason. If the action was just rejected, they show the values that were sent with it. */
  readonly fields?: (rejected: RejectedAction | undefined) => Html
}

/** A rejected action, and the values that were sent with it. */
export interface RejectedAction {
  readonly name: string
  readonly fields: Fields
  readonly problem: Problem
}

/**
 * Returns the rejected action if its form must show the problem: the page has this form, and the problem is about the
 * form's fields. Otherwise, returns undefined, and the page shows the problem, if there is one, at its top.
 */
export function rejectionShownInForm(
  rejected: RejectedAction | undefined,
  forms: readonly Pick<PageAction, 'name'>[],
): RejectedAction | undefined {
  const hasForm = forms.some(({ name }) => name === rejected?.name)
  return hasForm && rejected?.problem.code === 'validation_failed' ? rejected : undefined
}

/** Renders an action with a reason. Its form is open if `rejected` is this action. */
export function renderActionWithReason(
  frame: Frame,
  path: string,
  action: PageAction,
  rejected: RejectedAction | undefined,
): Html {
  const rejection = rejected?.name === action.name ? rejected : undefined
  const problem = rejection?.problem
  // The list of faults links to the id `reason`. Only the form of the rejected action has this id, because a page may
  // have several of these forms.
  const id = rejection === undefined ? `${action.name}-reason` : 'reason'
  return html`<details class="action"${rejection !== undefined && html` open`}>
<summary class="button${action.isDangerous && ' danger'}">${action.title}…</summary>
<form method="post" action="${path}/${action.name}" class="stack" data-once novalidate>${renderCommonHiddenFields(frame)}
<p class="hint">${action.hint}</p>
${renderFaultSummary(problem)}
${action.fields?.(rejection)}
<p class="field"><label for="${id}">Reason</label>
<input id="${id}" name="reason" value="${rejection?.fields.text('reason')}" maxlength="500" autocomplete="off" required${describedBy(problem, 'reason')}></p>
${renderFieldFaults(problem, 'reason')}
<p><button class="${action.isDangerous ? 'danger solid' : 'primary'}">${action.title}</button></p>
</form></details>`
}

/** Renders an action without a reason. */
export function renderActionButton(
  frame: Frame,
  path: string,
  { name, title, isDangerous }: Pick<PageAction, 'name' | 'title' | 'isDangerous'>,
): Html {
  return html`<form method="post" action="${path}/${name}" data-once>${renderCommonHiddenFields(frame)}
<button${isDangerous && html` class="danger"`}>${title}</button></form>`
}
