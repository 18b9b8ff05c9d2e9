/**
 * The routes of the sender of reminders, which is a name and a logo. A change of the name or the logo requires that the
 * password was entered recently: otherwise, a person who finds an open session could make the reminders show another
 * bank account, e.g. as a part of the logo. The logo can be removed without the password.
 */
import { Problem } from '../../../shared/contract/problem.ts'
import { getAccount } from '../../accounts/accounts.ts'
import { findLogo, findLogoProperties } from '../../accounts/logo.ts'
import { senderNameOf } from '../../accounts/sender.ts'
import type { Reader } from '../../database/database.ts'
import { countAwaitingApproval } from '../../messages/approval-log.ts'
import { changeLogo, changeSenderName } from '../../reminders/reminder-content.ts'
import { withFieldLabels } from '../shell/faults.ts'
import {
  EDIT_METHODS,
  type SessionPage,
  type SessionRequest,
  type SettingsDeps,
} from '../shell/page-request.ts'
import { LOGO_PATH } from '../shell/security-headers.ts'
import { renderSender, SENDER_WORDS, type SenderView } from './sender-page.ts'

const PATH = '/settings/sender'
const ADMINS_ONLY = 'Only an Admin can change the sender of reminders.'

export const senderPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle(request, deps) {
      const view = await readView(request, deps)
      return {
        json: await represent(deps.database.read, request.session.account.id),
        page: (frame) => renderSender(frame, view),
      }
    },
  },
  {
    method: EDIT_METHODS,
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    expected: { texts: ['name'] },
    async handle({ session, fields, actionContext, performAction }) {
      const { id: accountId } = session.account
      const json = await performAction('sender_changed', async (tx) => {
        await changeSenderName(tx, accountId, fields.text('name'), actionContext)
        return represent(tx, accountId)
      })
      return { json, location: PATH }
    },
    rerender,
  },
  {
    method: 'GET',
    path: LOGO_PATH,
    async handle({ session }, { database: { read } }) {
      const { id: accountId } = session.account
      const { logo_id } = await getAccount(read, accountId)
      const image = await findLogo(read, accountId, logo_id)
      if (image === undefined) throw new Problem('not_found', 'The account has no logo.')
      return { image }
    },
  },
  {
    method: 'POST',
    path: LOGO_PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    // A file in a form becomes two texts: `logo` is the content of the file in base64, as in a JSON body. `logo_name`
    // is the name of the file, and is not used.
    expected: { texts: ['logo', 'logo_name'], binaryFile: 'logo' },
    async handle({ session, fields, actionContext, performAction }) {
      const { id: accountId } = session.account
      const content = Buffer.from(fields.text('logo'), 'base64')
      const json = await performAction('sender_changed', async (tx) => {
        await changeLogo(tx, accountId, content, actionContext)
        return represent(tx, accountId)
      })
      return { json, location: PATH }
    },
    rerender,
  },
  {
    method: 'POST',
    path: `${LOGO_PATH}/remove`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session, actionContext, performAction }) {
      const { id: accountId } = session.account
      const json = await performAction('logo_removed', async (tx) => {
        await changeLogo(tx, accountId, null, actionContext)
        return represent(tx, accountId)
      })
      return { json, location: PATH }
    },
  },
]

async function rerender(request: SessionRequest, problem: Problem, deps: SettingsDeps) {
  if (problem.status !== 422) return undefined
  const stored = await readView(request, deps)
  const { fields } = request
  const view = fields.has('name') ? { ...stored, name: fields.text('name') } : stored
  const labeled = withFieldLabels(problem, SENDER_WORDS)
  return (frame: Parameters<typeof renderSender>[0]) => renderSender(frame, view, labeled)
}

async function readView(
  { session }: SessionRequest,
  { database: { read } }: SettingsDeps,
): Promise<SenderView> {
  const account = await getAccount(read, session.account.id)
  return {
    isAdmin: session.user.role === 'admin',
    awaitingApproval: await countAwaitingApproval(read, account.id),
    name: account.sender_name ?? '',
    accountName: account.name,
    logo: await findLogoProperties(read, account.id, account.logo_id),
  }
}

async function represent(reader: Reader, accountId: string) {
  const account = await getAccount(reader, accountId)
  const logo = await findLogo(reader, accountId, account.logo_id)
  return {
    object: 'reminder_sender',
    name: senderNameOf(account),
    is_default: account.sender_name === null,
    logo:
      logo === undefined
        ? null
        : {
            id: logo.id,
            media_type: logo.mediaType,
            width: logo.width,
            height: logo.height,
            bytes: logo.content.length,
          },
  }
}
