/**
 * The routes of the authenticator app and the recovery codes, and of the account's policy whether Admins need a second
 * factor.
 */
import { setSecondFactorPolicy } from '../../accounts/accounts.ts'
import { listPasskeys } from '../../sessions/passkeys.ts'
import {
  beginAppSetup,
  disableApp,
  enableApp,
  readAppSetup,
  replaceRecoveryCodes,
} from '../../sessions/second-factor.ts'
import { endSessionsOf } from '../../sessions/sessions.ts'
import { getUser } from '../../users/users.ts'
import { rejectField } from '../shell/faults.ts'
import type { SessionPage } from '../shell/page-request.ts'
import { representPasskey } from './passkey-routes.ts'
import {
  SECOND_FACTOR_PATH as PATH,
  renderCodes,
  renderSecondFactor,
  renderSetup,
} from './second-factor-page.ts'

export const secondFactorPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    allowedWithoutSecondFactor: true,
    async handle({ session, now }, { database, relyingParty: party }) {
      const passkeys = await listPasskeys(database.read, session.user.id)
      return {
        json: {
          enabled: session.user.hasSecondFactor,
          required: session.account.requiresSecondFactor,
          app: session.user.hasApp,
          passkeys: passkeys.map(representPasskey),
        },
        page: (frame) => renderSecondFactor(frame, { session, passkeys, party, now }),
      }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/setup`,
    allowedWithoutSecondFactor: true,
    needsRecentPassword: true,
    async handle({ session, now }, { database, secondFactorCipher }) {
      const setup = await database.transaction((tx) =>
        beginAppSetup(tx, session.user.id, secondFactorCipher, now),
      )
      return { json: setup, page: (frame) => renderSetup(frame, setup) }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/enable`,
    allowedWithoutSecondFactor: true,
    needsRecentPassword: true,
    expected: { secrets: ['code'] },
    async handle({ session, fields, actionContext }, { database, secondFactorCipher }) {
      const { user, token } = session
      // The code is also missing if the user first had to enter the password again. The page for the password submits
      // this form once more, but without its secrets, such as this code.
      if (fields.text('code').trim() === '')
        rejectField('code', 'Enter the code that the app shows now.')
      const codes = await database.transaction(async (tx) => {
        const issued = await enableApp(
          tx,
          user.id,
          fields.text('code'),
          secondFactorCipher,
          actionContext,
        )
        // All other sessions end, because an attacker may have started one with the password alone.
        await endSessionsOf(tx, user.id, token)
        return issued
      })
      return { json: { recovery_codes: codes }, page: (frame) => renderCodes(frame, codes) }
    },
    async rerender({ session }, problem, { database, secondFactorCipher }) {
      const user = await getUser(database.read, session.account.id, session.user.id)
      const setup = readAppSetup(user, secondFactorCipher)
      return setup && ((frame) => renderSetup(frame, setup, problem))
    },
  },
  {
    method: 'POST',
    path: `${PATH}/recovery-codes`,
    needsRecentPassword: true,
    async handle({ session, actionContext }, { database }) {
      const codes = await database.transaction((tx) =>
        replaceRecoveryCodes(tx, session.user.id, actionContext),
      )
      return { json: { recovery_codes: codes }, page: (frame) => renderCodes(frame, codes) }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/disable`,
    needsRecentPassword: true,
    async handle({ session, actionContext, performAction }) {
      await performAction('second_factor_disabled', (tx) =>
        disableApp(tx, session.user.id, actionContext),
      )
      return { location: PATH }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/policy`,
    adminsOnlyMessage: 'Only an Admin can require two-factor authentication.',
    needsRecentPassword: true,
    expected: { texts: ['required'] },
    async handle({ session, fields, actionContext, performAction }) {
      const isRequired = isYes(fields.text('required'))
      if (isRequired && !session.user.hasSecondFactor) {
        rejectField(
          'required',
          'Set up two-factor authentication for yourself first. Otherwise, you would have to set it up before you could do anything else.',
        )
      }
      await performAction('second_factor_policy', (tx) =>
        setSecondFactorPolicy(tx, session.account.id, isRequired, actionContext),
      )
      return { location: PATH }
    },
  },
]

/** Rejects any text other than `yes` and `no`: a typing error must not turn the requirement off. */
function isYes(text: string): boolean {
  if (text === 'yes' || text === 'no') return text === 'yes'
  return rejectField('required', 'required must be yes or no.', 'invalid_enum')
}
