import type { Problem } from '../../../shared/contract/problem.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import type { PrivateTargetPolicy } from '../../webhooks/target-url.ts'
import type { Labels } from '../shell/faults.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderInitialValues,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { EVENT_GROUPS, EVENT_WORDS } from './webhook-words.ts'

export const ENDPOINT_LABELS = {
  url: 'Endpoint URL',
  description: 'Description',
} satisfies Labels

export interface EndpointForm extends EndpointValues {
  /**
   * The hidden field with the idempotency key, in a form that adds an endpoint; undefined in a form that changes one.
   */
  readonly keyField: Html | undefined
  /** Undefined for a new endpoint. */
  readonly id: string | undefined
  /**
   * The stored values, undefined for a new endpoint. A hidden field repeats them, so that saving the form changes only
   * the fields that the person changed.
   */
  readonly stored: EndpointValues | undefined
}

export interface EndpointValues {
  readonly url: string
  readonly description: string
  /** `*` means every event. */
  readonly events: readonly string[]
}

const URL_HINTS: Readonly<Record<PrivateTargetPolicy, string>> = {
  refuse: 'The URL must begin with https:// and be reachable from the public internet.',
  allow:
    'The URL must begin with https://, or with http://localhost or http://127.0.0.1 if your server runs on the same machine as this service.',
}

export function renderEndpointForm(
  frame: Frame,
  form: EndpointForm,
  privateTargetPolicy: PrivateTargetPolicy,
  problem?: Problem,
): Html {
  const title = form.id === undefined ? 'Add endpoint' : 'Change endpoint'
  const path = ['/settings/webhook-endpoints', form.id].filter(Boolean).join('/')
  const main = html`<p class="back"><a href="/settings/webhook-endpoints">Webhooks</a></p>
<h1>${title}</h1>
${renderFaultSummary(problem)}
<form method="post" action="${path}" class="stack" data-once novalidate>
${renderCommonHiddenFields(frame)}${form.keyField}${form.stored && renderInitialValues({ ...form.stored })}
<div class="card stack">
<p class="field"><label for="url">${ENDPOINT_LABELS.url}</label>
<input id="url" name="url" type="url" value="${form.url}" autocomplete="off" spellcheck="false" required${describedBy(problem, 'url', 'url-hint')}></p>
<p class="hint" id="url-hint">${URL_HINTS[privateTargetPolicy]}</p>
${renderFieldFaults(problem, 'url')}
<p class="field"><label for="description">${ENDPOINT_LABELS.description} (optional)</label>
<input id="description" name="description" value="${form.description}" autocomplete="off"${describedBy(problem, 'description')}></p>
${renderFieldFaults(problem, 'description')}
</div>
<fieldset class="card" id="events" tabindex="-1"${describedBy(problem, 'events')}>
<legend class="title">Events to send</legend>
${renderFieldFaults(problem, 'events')}
<p><label class="check"><input type="checkbox" name="events" value="*"${attribute('checked', form.events.includes('*'))}>
<span>All events, including types added later</span></label></p>
<div class="groups events">${EVENT_GROUPS.map(
    ([name, types]) => html`<fieldset class="group"><legend>${name}</legend>
${types.map(
  (
    type,
  ) => html`<label class="check"><input type="checkbox" name="events" value="${type}"${attribute('checked', form.events.includes(type))}>
<span><span translate="no" class="event-name">${type}</span><span class="detail">${EVENT_WORDS[type]}</span></span></label>`,
)}</fieldset>`,
  )}</div>
</fieldset>
<p class="row"><button class="primary">${form.id === undefined ? 'Add endpoint' : 'Save'}</button>
<a class="button" href="${path}">Cancel</a></p>
</form>`
  // Webhooks belong to the section "API & webhooks", whose entry in the navigation leads to the API keys.
  return renderPage(frame, { title, section: '/settings/api-keys', main })
}
