/** Renders the Undo button beside the message that follows an action. It is a form, and works without the script. */
import { type Html, html } from '../../html/html.ts'
import type { Undo } from '../../sessions/sessions.ts'

export interface Flash {
  readonly name: string
  readonly undo?: Undo | undefined
}

/** Reads what `setFlash` has stored. */
export function readFlash(stored: string | null): Flash | undefined {
  if (stored === null) return undefined
  if (!stored.startsWith('{')) return { name: stored, undo: undefined }
  const { flash, undo }: { flash: string; undo: Undo } = JSON.parse(stored)
  return { name: flash, undo }
}

export function renderUndo({ path, fields }: Undo, csrf: Html): Html {
  return html`<form method="post" action="${path}" class="undo" data-once>${csrf}${fields.map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )}<button class="small">Undo<span class="unseen"> what was just done</span></button></form>`
}
