/** What a person can do with a thing that its page shows: a form that opens, with its reason. */
import type { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import { csrfField, describedBy, renderFault, renderFaults } from './layout.ts'
import type { Frame } from './response.ts'

export interface PageAct {
  /** The last part of the path it posts to. */
  readonly name: string
  /** As the button that opens it says. */
  readonly title: string
  /** What it will lead to. */
  readonly hint: string
  readonly isDangerous?: boolean
  /** Asked before the reason. */
  readonly fields?: (problem: Problem | undefined) => Html
}

/** An act that was refused, and what was said with it. */
export interface FailedAct {
  readonly name: string
  readonly reason: string
  readonly problem: Problem
}

/** Open where it failed before. */
export function renderReasonedAct(
  frame: Frame,
  path: string,
  act: PageAct,
  failed: FailedAct | undefined,
): Html {
  const mine = failed?.name === act.name ? failed : undefined
  const problem = mine?.problem
  // One field of the page has the name that a fault leads to.
  const id = mine === undefined ? `${act.name}-reason` : 'reason'
  return html`<details class="act"${mine !== undefined && html` open`}>
<summary class="button${act.isDangerous && ' danger'}">${act.title}…</summary>
<form method="post" action="${path}/${act.name}" class="stack" data-once novalidate>${csrfField(frame)}
<p class="hint">${act.hint}</p>
${renderFaults(problem)}
${act.fields?.(problem)}
<p class="field"><label for="${id}">Reason</label>
<input id="${id}" name="reason" value="${mine?.reason}" maxlength="500" autocomplete="off" required${describedBy(problem, 'reason')}></p>
${renderFault(problem, 'reason')}
<p><button class="${act.isDangerous ? 'danger solid' : 'primary'}">${act.title}</button></p>
</form></details>`
}

/** One that needs no words. */
export function renderPlainAct(
  frame: Frame,
  path: string,
  { name, title, isDangerous }: Pick<PageAct, 'name' | 'title' | 'isDangerous'>,
): Html {
  return html`<form method="post" action="${path}/${name}" data-once>${csrfField(frame)}
<button${isDangerous && html` class="danger"`}>${title}</button></form>`
}
