/** The page about the account's status. The 423 responses of a read-only account link to this page. */
import { isReadOnly, setStatus } from '../../accounts/accounts.ts'
import type { AccountStatus } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderCommonHiddenFields, renderPage } from '../shell/layout.ts'
import type { SessionPage } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'

const PATH = '/settings/account-state'

export const accountStatePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    handle: async ({ session }) => ({
      json: represent(session.account.status),
      page: (frame) => renderStatus(frame, session),
    }),
  },
  {
    method: 'POST',
    path: `${PATH}/resume`,
    adminsOnlyMessage: 'Only an Admin can resume the account.',
    async handle({ session, actionContext, performAction }) {
      // Only a paused trial can be resumed: for a suspended account, for example, `setStatus` throws.
      const account = await performAction('account_resumed', (tx) =>
        setStatus(tx, session.account.id, 'trial', actionContext),
      )
      return { json: represent(account.status), location: PATH }
    },
  },
]

function represent(status: AccountStatus) {
  return { object: 'account_state', status, read_only: isReadOnly(status) }
}

const STATUS_TEXTS: Readonly<
  Record<AccountStatus, { readonly title: string; readonly text: string }>
> = {
  active: {
    title: 'This account is active',
    text: 'API keys can write, and the status of the account does not block reminders.',
  },
  trial: {
    title: 'This account is on trial',
    text: 'API keys can write, and the status of the account does not block reminders.',
  },
  trial_paused: {
    title: 'The trial of this account is paused',
    text: 'No reminder is sent, and API calls that write are rejected with status 423. You can still read everything. When the trial is resumed, reminders that are then due are sent.',
  },
  suspended: {
    title: 'This account is suspended',
    text: 'No reminder is sent, and API calls that write are rejected with status 423. You can still read everything. The operator of this service suspended the account, and only the operator can activate it again. Contact the operator, and give them the account ID below.',
  },
  cancelled: {
    title: 'This account is cancelled',
    text: 'No reminder is sent, and API calls that write are rejected with status 423. You can still read everything for as long as the data is kept. To use the account again, contact the operator of this service, and give them the account ID below.',
  },
}

function renderStatus(frame: Frame, { account, user }: Session): Html {
  const { title, text } = STATUS_TEXTS[account.status]
  const main = html`<h1>${title}</h1>
<section class="card stack"><p>${text}</p>
<dl class="facts"><div><dt>Account ID</dt><dd><code translate="no">${account.id}</code></dd></div></dl>
${
  account.status === 'trial_paused' &&
  (user.role === 'admin'
    ? html`<form method="post" action="${PATH}/resume" data-once>${renderCommonHiddenFields(frame)}<button class="primary">Resume the trial</button></form>`
    : html`<p class="hint">An Admin of your account can resume the trial.</p>`)
}</section>`
  return renderPage(frame, { title, main })
}
