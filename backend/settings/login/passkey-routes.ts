import { Problem } from '../../../shared/contract/problem.ts'
import type { PasskeyRow } from '../../database/tables.ts'
import { setFlash } from '../../sessions/flash.ts'
import { challengeIn, consumeChallenge, storeChallenge } from '../../sessions/passkey-challenges.ts'
import {
  addPasskey,
  checkPasskeyName,
  getPasskey,
  listPasskeys,
  removePasskey,
  renamePasskey,
} from '../../sessions/passkeys.ts'
import { creationOptions, type RelyingParty, verifyCreation } from '../../sessions/relying-party.ts'
import { endSessionsOf, type Session } from '../../sessions/sessions.ts'
import { rejectField } from '../shell/faults.ts'
import type { SessionPage, SettingsDeps } from '../shell/page-request.ts'
import { readRegistration } from './credential-field.ts'
import { renderNewPasskey, renderRemovePasskey, renderRenamePasskey } from './passkey-page.ts'
import { renderCodes, SECOND_FACTOR_PATH } from './second-factor-page.ts'

const PATH = '/settings/passkeys'

/** Throws `second_factor_conflict` if the service has no host name, because each passkey is bound to a host name. */
export function requireRelyingParty({
  relyingParty,
}: Pick<SettingsDeps, 'relyingParty'>): RelyingParty {
  if (relyingParty !== undefined) return relyingParty
  throw new Problem(
    'second_factor_conflict',
    'Passkeys need a host name, and this service has only an IP address.',
  )
}

/** A challenge for adding a passkey is valid only for the user and the session that requested it. */
const challengeScopeOf = ({ token, user }: Session) =>
  ({ purpose: 'add', browserSecret: token, userId: user.id }) as const

export const passkeyPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    allowedWithoutSecondFactor: true,
    async handle({ session }, { database }) {
      const passkeys = await listPasskeys(database.read, session.user.id)
      return {
        json: { object: 'list', data: passkeys.map(representPasskey) },
        location: SECOND_FACTOR_PATH,
      }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/new`,
    allowedWithoutSecondFactor: true,
    needsRecentPassword: true,
    async handle(_request, deps) {
      const party = requireRelyingParty(deps)
      return { page: (frame) => renderNewPasskey(frame, party, '') }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/challenge`,
    allowedWithoutSecondFactor: true,
    needsRecentPassword: true,
    expected: { texts: ['name'] },
    async handle({ session, fields, now }, deps) {
      const { database } = deps
      // Rejects an invalid name before the device creates the passkey. Otherwise, the passkey would exist on the
      // device, but not in the account.
      checkPasskeyName(fields.text('name'))
      const existing = await listPasskeys(database.read, session.user.id)
      const options = await creationOptions(requireRelyingParty(deps), session.user, existing)
      await database.transaction((tx) =>
        storeChallenge(tx, options.challenge, challengeScopeOf(session), now),
      )
      return { json: options }
    },
  },
  {
    // A valid challenge shows that the user logged in or entered the password recently. If this route also required a
    // recent password, the password could be too old by the time the device has created the passkey. The passkey would
    // then exist only on the device.
    method: 'POST',
    path: PATH,
    allowedWithoutSecondFactor: true,
    expected: { texts: ['name'], secrets: ['credential'] },
    async handle({ session, fields, actionContext, now, wantsJson }, deps) {
      const { database } = deps
      const party = requireRelyingParty(deps)
      const { user, token } = session
      const name = checkPasskeyName(fields.text('name'))
      const created = readRegistration(fields)
      const challenge = challengeIn(created.response.clientDataJSON)
      const isChallengeValid = await database.transaction((tx) =>
        consumeChallenge(tx, challenge, challengeScopeOf(session), now),
      )
      if (!isChallengeValid)
        rejectField('credential', 'Adding the passkey took too long. Try again.')
      const credential = await verifyCreation(party, created, challenge)
      if (credential === undefined) {
        return rejectField('credential', 'The browser did not return a valid passkey. Try again.')
      }
      const { passkey, recoveryCodes } = await database.transaction(async (tx) => {
        const added = await addPasskey(tx, user.id, { ...credential, name }, actionContext)
        // Recovery codes are created when a user who has no second factor adds one. All other sessions then end,
        // because an attacker may have started one of them with the password alone.
        if (added.recoveryCodes !== undefined) await endSessionsOf(tx, user.id, token)
        else if (!wantsJson) await setFlash(tx, token, 'passkey_added')
        return added
      })
      const json = { ...representPasskey(passkey), recovery_codes: recoveryCodes ?? null }
      return recoveryCodes === undefined
        ? { status: 201, json, location: SECOND_FACTOR_PATH }
        : { status: 201, json, page: (frame) => renderCodes(frame, recoveryCodes) }
    },
    async rerender({ fields }, problem, deps) {
      const party = requireRelyingParty(deps)
      return (frame) => renderNewPasskey(frame, party, fields.text('name'), problem)
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}/rename`,
    async handle({ session, id }, { database }) {
      const passkey = await getPasskey(database.read, session.user.id, id)
      return { page: (frame) => renderRenamePasskey(frame, passkey, passkey.name) }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/rename`,
    expected: { texts: ['name'] },
    async handle({ session, id, fields, actionContext, performAction }) {
      const passkey = await performAction('passkey_renamed', (tx) =>
        renamePasskey(tx, session.user.id, id, fields.text('name'), actionContext),
      )
      return { json: representPasskey(passkey), location: SECOND_FACTOR_PATH }
    },
    async rerender({ session, id, fields }, problem, { database }) {
      const passkey = await getPasskey(database.read, session.user.id, id)
      return (frame) => renderRenamePasskey(frame, passkey, fields.text('name'), problem)
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}/remove`,
    async handle({ session, id }, { database }) {
      const passkeys = await listPasskeys(database.read, session.user.id)
      const passkey = await getPasskey(database.read, session.user.id, id)
      const isOnlySecondFactor = passkeys.length === 1 && !session.user.hasApp
      return { page: (frame) => renderRemovePasskey(frame, passkey, isOnlySecondFactor) }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/remove`,
    needsRecentPassword: true,
    async handle({ session, id, actionContext, performAction }) {
      await performAction('passkey_removed', (tx) =>
        removePasskey(tx, session.user.id, id, actionContext),
      )
      return { location: SECOND_FACTOR_PATH }
    },
  },
]

export function representPasskey({ id, name, created_at, last_used_at }: PasskeyRow) {
  return { id, object: 'passkey', name, created_at, last_used_at }
}
