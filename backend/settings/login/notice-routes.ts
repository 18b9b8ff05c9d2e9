import {
  OPTIONAL_NOTICES,
  type OptionalNotice,
  readEnabledNotices,
  SECURITY_NOTICES,
  setEnabledNotices,
} from '../../mail/notice-choices.ts'
import { rejectField } from '../shell/faults.ts'
import type { SessionPage } from '../shell/page-request.ts'
import { NOTICES_PATH, renderNotices } from './notice-page.ts'

export const noticeChoicePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: NOTICES_PATH,
    async handle({ session }, { database: { read } }) {
      const enabled = await readEnabledNotices(read, session.user.id)
      return {
        json: represent(enabled),
        page: (frame) => renderNotices(frame, session, enabled),
      }
    },
  },
  {
    method: 'POST',
    path: NOTICES_PATH,
    adminsOnlyMessage:
      'Only an Admin can choose notices: notices about the account are mailed to its Admins.',
    expected: { lists: ['kinds'] },
    async handle({ session, fields, actionContext, performAction }, { database }) {
      const enabled = fields.list('kinds').map(kindOf)
      const user = { id: session.user.id, account_id: session.account.id }
      await performAction('notices_changed', (tx) =>
        setEnabledNotices(tx, user, enabled, actionContext),
      )
      return {
        json: represent(await readEnabledNotices(database.read, user.id)),
        location: NOTICES_PATH,
      }
    },
  },
]

function kindOf(text: string): OptionalNotice {
  const kind = OPTIONAL_NOTICES.find((candidate) => candidate === text)
  return kind ?? rejectField('kinds', `kinds may contain only ${OPTIONAL_NOTICES.join(', ')}.`)
}

function represent(enabled: readonly OptionalNotice[]) {
  return {
    object: 'notice_choices',
    kinds: OPTIONAL_NOTICES.filter((kind) => enabled.includes(kind)),
    always: SECURITY_NOTICES,
  }
}
