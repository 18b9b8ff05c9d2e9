import type { Problem } from '../../../shared/contract/problem.ts'
import { LOGO_BYTES_MAX, LOGO_PIXELS_MAX, LOGO_PIXELS_MIN } from '../../accounts/logo.ts'
import { SENDER_NAME_LENGTH_MAX } from '../../accounts/sender.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import { LOGO_HEIGHT_MAX, LOGO_WIDTH_MAX } from '../../mail/wording/mail-body.ts'
import { fullStopAfter } from '../../validation/full-stop.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { LOGO_PATH } from '../shell/security-headers.ts'
import { renderReminderTabs } from './reminder-tabs.ts'

const PATH = '/settings/sender'

/** The preview shows a stage and a language that exist in every account. */
const PREVIEW = '/settings/wording/reminder-en/preview'

export const SENDER_WORDS = { name: 'Name', logo: 'Logo' } as const

export interface SenderView {
  readonly isAdmin: boolean
  readonly awaitingApproval: number
  /** The name that the field shows: that of a rejected form, otherwise the stored name. */
  readonly name: string
  readonly accountName: string
  readonly logo:
    | { readonly id: string; readonly width: number; readonly height: number }
    | undefined
}

export function renderSender(frame: Frame, view: SenderView, problem?: Problem): Html {
  const { isAdmin, awaitingApproval, name, accountName } = view
  const disabled = attribute('disabled', !isAdmin)
  const main = html`<h1>Reminders</h1>
${renderReminderTabs(PATH, awaitingApproval)}
<p class="lead">Customers see this sender in every reminder. A change applies to all reminders that are not written yet, and to those
that wait for approval, which are written again. Approved reminders are sent as they were approved.</p>
${renderFaultSummary(problem)}
<div class="pair wording">
<div class="stack">
<form method="post" action="${PATH}" class="card stack" data-once novalidate>${renderCommonHiddenFields(frame)}
<div class="field"><label for="name">${SENDER_WORDS.name}</label>
<input id="name" name="name" value="${name}" placeholder="${accountName}" maxlength="${SENDER_NAME_LENGTH_MAX}" autocomplete="organization"${disabled}${describedBy(problem, 'name', 'name-hint')}>
<p class="hint" id="name-hint">Shown in From, in the subject and in the text. If it is empty, reminders show the account’s name,
<span translate="no">${accountName}</span>${fullStopAfter(accountName)}</p>${renderFieldFaults(problem, 'name')}</div>
${isAdmin && html`<p class="row"><button class="primary">Save the name</button></p>`}
</form>
${renderLogoCard(frame, view, problem)}
</div>
<section aria-labelledby="preview-title" class="stack"><h2 id="preview-title">Preview</h2>
<p class="hint">The preview shows the saved name and logo. To send yourself a test mail, open the <a href="/settings/wording/reminder-en">wording</a> of a stage.</p>
<div class="preview"><iframe class="mail-html" sandbox="" src="${PREVIEW}" title="A reminder as customers see it" height="1100"></iframe></div></section>
</div>`
  return renderPage(frame, { title: 'Sender', section: '/settings/reminders', main })
}

function renderLogoCard(frame: Frame, { isAdmin, logo }: SenderView, problem?: Problem): Html {
  const kib = LOGO_BYTES_MAX / 1024
  return html`<section class="card stack" aria-labelledby="logo-title"><h2 id="logo-title">${SENDER_WORDS.logo}</h2>
${
  logo === undefined
    ? html`<p class="hint">There is no logo: reminders begin with the sender’s name.</p>`
    : html`<p class="logo"><img src="${LOGO_PATH}?version=${logo.id}" alt="Your logo" width="${logo.width}" height="${logo.height}"></p>`
}
${
  isAdmin &&
  html`<form method="post" action="${LOGO_PATH}" enctype="multipart/form-data" class="stack" data-once novalidate>${renderCommonHiddenFields(frame)}
<div class="field"><label for="logo">${logo === undefined ? 'Image' : 'Another image'}</label>
<input id="logo" name="logo" type="file" accept="image/png,image/jpeg"${describedBy(problem, 'logo', 'logo-hint')}>
<p class="hint" id="logo-hint">PNG or JPEG, at most ${kib} KiB, ${LOGO_PIXELS_MIN} to ${LOGO_PIXELS_MAX} pixels wide and high. In mails, the logo is shown with at most
${LOGO_WIDTH_MAX} × ${LOGO_HEIGHT_MAX} pixels. Each mail contains it, so nothing is loaded from elsewhere when a customer reads the mail.</p>${renderFieldFaults(problem, 'logo')}</div>
<p class="row"><button class="primary">Save the logo</button></p></form>
${
  logo !== undefined &&
  html`<form method="post" action="${LOGO_PATH}/remove" data-once>${renderCommonHiddenFields(frame)}<button class="danger">Remove the logo</button></form>`
}`
}</section>`
}
