import {
  changeApiKey,
  GRACE_PERIODS_MS,
  type GracePeriod,
  rotateApiKey,
} from '../../api-keys/key-changes.ts'
import { readAllowedAddresses } from '../../api-keys/key-status.ts'
import { createToken } from '../../users/tokens.ts'
import { rejectField } from '../shell/faults.ts'
import {
  EDIT_METHODS,
  type SessionPage,
  type SessionRequest,
  type SettingsDeps,
} from '../shell/page-request.ts'
import { type EditView, renderEditKey } from './edit-page.ts'
import { getKey, recordSubmission } from './key-records.ts'
import { representKey } from './key-view.ts'
import { lastDayOf, RESTRICTION_FIELDS, readAddresses, readExpiry } from './restriction-fields.ts'
import { renderReveal } from './reveal-page.ts'
import { type RotateView, renderOldKeyNote, renderRotate } from './rotate-page.ts'

const ADMINS_ONLY = 'Only an Admin can change or rotate API keys.'
const PATH = '/settings/api-keys/{id}'

export const keyChangePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: `${PATH}/edit`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle(request, deps) {
      const view = await editViewOf(request, deps)
      return { page: (frame) => renderEditKey(frame, view) }
    },
  },
  {
    method: EDIT_METHODS,
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: {
      texts: ['name', ...RESTRICTION_FIELDS.texts],
      lists: RESTRICTION_FIELDS.lists,
      ignoresUnchangedFields: true,
    },
    handle: changeKey,
    async rerender(request, problem, deps) {
      if (problem.code !== 'validation_failed') return undefined
      const { fields } = request
      const current = await editViewOf(request, deps)
      const view = {
        ...current,
        ...(fields.has('name') && { name: fields.text('name') }),
        ...(fields.has('expires_on') && { expiresOn: fields.text('expires_on') }),
        addresses: readAddresses(fields) ?? current.addresses,
      }
      return (frame) => renderEditKey(frame, view, problem)
    },
  },
  {
    method: 'GET',
    path: `${PATH}/rotate`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    async handle(request, deps) {
      const row = await getKey(deps.database.read, request.session, request.id)
      const view = { ...rotateViewOf(request), row, name: row.name, submission: createToken() }
      return { page: (frame) => renderRotate(frame, view) }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/rotate`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    expected: { texts: ['name', 'submission', 'grace', ...RESTRICTION_FIELDS.texts] },
    async handle(request, { database, peppers, baseUrl }) {
      const { session, fields, actionContext, id } = request
      const { account } = session
      const current = await getKey(database.read, session, id)
      const rotation = {
        name: fields.has('name') ? fields.text('name') : current.name,
        expiresAt: readExpiry(fields, account.timezone) ?? null,
        grace: graceOf(fields.text('grace')),
      }
      const flash = rotation.grace === 'now' ? 'key_replaced' : 'key_rotated'
      const { row, secret, replaced } = await request.performAction(flash, async (tx) => {
        const rotated = await rotateApiKey(tx, id, rotation, peppers, actionContext, account.id)
        // Rejects a `submission` that was already sent for another key. A repeated rotation of the same key was
        // rejected before this, because a key can be rotated only once.
        await recordSubmission(tx, request, rotated.row)
        return rotated
      })
      const represent = (key: typeof row) =>
        representKey(key, account.scopeAllowance, actionContext.now)
      return {
        status: 201,
        json: { ...represent(row), secret, replaced: represent(replaced) },
        page: (frame) => {
          const note = renderOldKeyNote(replaced, account.timezone)
          return renderReveal(frame, { row, secret, baseUrl, note })
        },
      }
    },
    async rerender(request, problem, deps) {
      if (problem.code !== 'validation_failed') return undefined
      const row = await getKey(deps.database.read, request.session, request.id)
      return (frame) => renderRotate(frame, { ...rotateViewOf(request), row }, problem)
    },
  },
]

async function changeKey(
  { session, fields, id, actionContext, performAction }: SessionRequest,
  { database }: SettingsDeps,
) {
  const { account } = session
  const current = await getKey(database.read, session, id)
  const shownDay = lastDayOf(current.expires_at, account.timezone)
  // If the day is unchanged, the stored expiry is kept. `readExpiry` would return the end of that day, which may be
  // later than the stored expiry, and a change to a later expiry is rejected.
  const isSameDay = fields.has('expires_on') && fields.text('expires_on') === shownDay
  const expiresAt = isSameDay ? undefined : readExpiry(fields, account.timezone)
  const allowedAddresses = readAddresses(fields)
  const change = {
    ...(fields.has('name') ? { name: fields.text('name') } : {}),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(allowedAddresses === undefined ? {} : { allowedAddresses }),
  }
  const row = await performAction('key_changed', (tx) =>
    changeApiKey(tx, id, change, actionContext, account.id),
  )
  return {
    json: representKey(row, account.scopeAllowance, actionContext.now),
    location: `/settings/api-keys/${id}`,
  }
}

async function editViewOf({ session, id }: SessionRequest, deps: SettingsDeps): Promise<EditView> {
  const row = await getKey(deps.database.read, session, id)
  const { timezone } = session.account
  const expiresOn = lastDayOf(row.expires_at, timezone)
  const addresses = readAllowedAddresses(row.allowed_addresses) ?? []
  return {
    row,
    name: row.name,
    timezone,
    ...{ expiresOn, addresses },
    stored: { name: row.name, expires_on: expiresOn, allowed_addresses: addresses.join('\n') },
  }
}

function rotateViewOf({ fields, session }: SessionRequest): Omit<RotateView, 'row'> {
  return {
    name: fields.text('name'),
    expiresOn: fields.text('expires_on'),
    timezone: session.account.timezone,
    grace: fields.text('grace') || '24h',
    submission: fields.text('submission'),
  }
}

function graceOf(text: string): GracePeriod {
  const grace = Object.keys(GRACE_PERIODS_MS).find((name): name is GracePeriod => name === text)
  const detail = 'Choose when the old key stops working: now, 1h, 24h or 7d.'
  return grace ?? rejectField('grace', detail, 'invalid_enum')
}
