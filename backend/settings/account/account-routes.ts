import { type AccountProfile, PROFILE_FIELDS } from '../../accounts/account-profile.ts'
import { getAccount, isReadOnly } from '../../accounts/accounts.ts'
import type { AccountRow } from '../../database/tables.ts'
import { changeProfile } from '../../reminders/reminder-content.ts'
import { withFieldLabels } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import type { SessionPage } from '../shell/page-request.ts'
import { PROFILE_WORDS, type ProfileValues, renderAccountPage } from './account-page.ts'

const PATH = '/settings/account'

export const accountPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session }, { database: { read } }) {
      const account = await getAccount(read, session.account.id)
      return {
        json: represent(account),
        page: (frame) =>
          renderAccountPage(frame, session, { stored: valuesOf(account), entered: {} }),
      }
    },
  },
  {
    method: 'POST',
    path: PATH,
    adminsOnlyMessage: 'Only an Admin can change the account.',
    expected: {
      texts: ['name', 'timezone', 'default_currency'],
      numbers: ['payment_terms_days'],
      ignoresUnchangedFields: true,
    },
    async handle({ session, fields, actionContext, performAction }) {
      const account = await performAction('account_changed', (tx) =>
        changeProfile(tx, session.account.id, inputOf(fields), actionContext),
      )
      return { json: represent(account), location: PATH }
    },
    async rerender({ session, fields }, problem, { database: { read } }) {
      if (problem.status !== 422) return undefined
      const stored = valuesOf(await getAccount(read, session.account.id))
      const labeled = withFieldLabels(problem, PROFILE_WORDS)
      return (frame) =>
        renderAccountPage(frame, session, { stored, entered: sentValues(fields) }, labeled)
    },
  },
]

/** Payment terms that are empty or not a whole number become -1, which the validation of the field rejects. */
function inputOf(fields: Fields) {
  const days = fields.number('payment_terms_days')
  return Object.fromEntries(
    PROFILE_FIELDS.filter((name) => fields.has(name)).map((name) => {
      if (name !== 'payment_terms_days') return [name, fields.text(name).trim()]
      return [name, days === null || Number.isNaN(days) ? -1 : days]
    }),
  )
}

function sentValues(fields: Fields): Partial<ProfileValues> {
  const sent = PROFILE_FIELDS.filter((name) => fields.has(name))
  return Object.fromEntries(sent.map((name) => [name, fields.text(name)]))
}

function valuesOf(profile: AccountProfile): ProfileValues {
  const { name, timezone, default_currency, payment_terms_days } = profile
  return { name, timezone, default_currency, payment_terms_days: String(payment_terms_days) }
}

function represent(account: AccountRow) {
  const { id, name, status, timezone, default_currency, payment_terms_days } = account
  return {
    object: 'account',
    ...{ id, name, status, read_only: isReadOnly(status) },
    ...{ timezone, default_currency, payment_terms_days },
  }
}
