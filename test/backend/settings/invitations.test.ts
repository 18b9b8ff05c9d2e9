// Invitations: who may accept them and how often, when they end, and how many an account may send.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { actorOf } from '../../../backend/sessions/login.ts'
import { createInvitation, listInvitations } from '../../../backend/users/invitations.ts'
import { changeRole, setUserStatus } from '../../../backend/users/users.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import { ADMIN, JSON_ONLY, logIn, MEMBER, startSettings } from '../../fixtures/service/settings.ts'

const MINUTE_MS = 60_000

t.test('an invitation can be accepted once, with its code', async (t) => {
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const invite = (email: string) => ada.send('POST', '/settings/people', { email, role: 'member' })
  const codeOf = (response: { json: Readonly<Record<string, unknown>> }) =>
    String(response.json['link']).split('#')[1] ?? ''
  const accept = (code: string) =>
    backend.request('POST', '/settings/invitation', {
      headers: JSON_ONLY,
      body: { code, password: 'a walk along the canal' },
    })
  const first = await invite('eve@acme.example')
  matches(t, first, { status: 201, json: { link: /^https:.+\/settings\/invitation#[\w-]{43}$/ } })
  const second = await invite('Eve@acme.example')
  const invalid = { status: 422, json: { code: 'invalid_invitation' } }
  matches(t, await accept(codeOf(first)), invalid, 'a replaced invitation')
  matches(t, await accept('A'.repeat(43)), invalid)
  const listed = await ada.get('/settings/people')
  matches(t, listed.json['invitations'], [{ role: 'member' }])
  t.notMatch(listed.text, codeOf(second))
  const accepted = await accept(codeOf(second))
  matches(t, accepted, {
    status: 201,
    json: { user: { email: 'eve@acme.example', role: 'member' } },
  })
  matches(t, await accept(codeOf(second)), invalid, 'a used invitation')
  matches(t, await invite('eve@acme.example'), { status: 422 })
  const third = await invite('kim@acme.example')
  backend.now = new Date(backend.now.getTime() + 7 * 24 * 60 * MINUTE_MS)
  matches(t, await accept(codeOf(third)), invalid, 'an expired invitation')
  const now = await logIn(backend, ADMIN)
  const fourth = await now.send('POST', '/settings/people', {
    email: 'lee@x.example',
    role: 'admin',
  })
  await now.send('POST', `/settings/invitations/${fourth.json['id']}/withdraw`)
  matches(t, await accept(codeOf(fourth)), invalid, 'a withdrawn invitation')
})

t.test('the invitations of an Admin end with the login or the role of this Admin', async (t) => {
  // Regression: an Admin who was about to be deactivated could invite another address, and come back as an Admin.
  const { backend, account, createUser } = await startSettings(t)
  const ben = await createUser(account.id, 'ben@acme.example', 'admin')
  const cleo = await createUser(account.id, 'cleo@acme.example', 'admin')
  const invite = async (inviter: string, email: string) => {
    const session = await logIn(backend, inviter)
    const { json } = await session.send('POST', '/settings/people', { email, role: 'admin' })
    return String(json['link']).split('#')[1]
  }
  const byBen = await invite(ben.email, 'ben@home.example')
  const byCleo = await invite(cleo.email, 'cleo@home.example')
  const byAda = await invite(ADMIN, 'dan@acme.example')
  const ada = await logIn(backend, ADMIN)
  const { text } = await ada.page(`/settings/people/${ben.id}/deactivate`)
  matches(
    t,
    text,
    containing('Invitations that they have sent and nobody has accepted are withdrawn.'),
  )
  t.equal((await ada.send('POST', `/settings/people/${ben.id}/deactivate`)).status, 200)
  const toMember = { role: 'member' }
  t.equal((await ada.send('POST', `/settings/people/${cleo.id}/role`, toMember)).status, 200)
  const accept = async (code: string | undefined) =>
    (
      await backend.request('POST', '/settings/invitation', {
        headers: JSON_ONLY,
        body: { code, password: 'a walk along the canal' },
      })
    ).status
  t.equal(await accept(byBen), 422)
  t.equal(await accept(byCleo), 422)
  t.equal(await accept(byAda), 201, 'an invitation by another Admin')
  const log = Array.from(Object((await ada.get('/settings/audit-log')).json['data'])) as {
    action: string
  }[]
  t.equal(log.filter(({ action }) => action === 'user.invitation_withdrawn').length, 2)
})

t.test('a request that waits while its Admin is deactivated cannot undo this', async (t) => {
  // Regression: an invitation was created after the deactivation had withdrawn the others, and an Admin could
  // reactivate their own login.
  const { backend, account, createUser } = await startSettings(t)
  const { database, now } = backend
  const { id: accountId } = account
  const ben = await createUser(accountId, 'ben@acme.example', 'admin')
  const cleo = await createUser(accountId, 'cleo@acme.example', 'admin')
  const byOperator = { actor: OPERATOR, now }
  await database.transaction(async (tx) => {
    await setUserStatus(tx, { accountId, id: ben.id }, 'deactivated', byOperator)
    await changeRole(tx, { accountId, id: cleo.id }, 'member', byOperator)
  })
  for (const { id, email } of [ben, cleo]) {
    const bySelf = { actor: actorOf({ id, email }, undefined), now }
    const invitation = { email: 'home@x.example', role: 'admin', codeHash: id } as const
    const invited = database.transaction((tx) =>
      createInvitation(tx, { ...invitation, id: `ivt_${id}`, accountId }, bySelf),
    )
    await rejectsWith(t, invited, { code: 'admin_required' })
    const reactivated = database.transaction((tx) =>
      setUserStatus(tx, { accountId, id }, 'active', bySelf),
    )
    await rejectsWith(t, reactivated, { code: 'admin_required' })
    const promoted = database.transaction((tx) =>
      changeRole(tx, { accountId, id }, 'admin', bySelf),
    )
    await rejectsWith(t, promoted, { code: 'admin_required' })
  }
  t.strictSame(await listInvitations(database.read, accountId, now), [])
})

t.test('an account sends 100 invitations in 24 hours, five to the same address', async (t) => {
  // Regression: an Admin could make the service send any number of mails to any address.
  const { backend, createUser } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const invite = (email: string) => ada.send('POST', '/settings/people', { email, role: 'member' })
  const inviteAll = async (emails: readonly string[]) =>
    (await Promise.all(emails.map(invite))).map(({ status }) => status)
  const start = backend.now.getTime()
  const toEve = await inviteAll(Array.from({ length: 6 }, () => 'eve@acme.example'))
  t.strictSame(toEve.sort(), [201, 201, 201, 201, 201, 429])
  backend.now = new Date(start + MINUTE_MS)
  const people = Array.from({ length: 96 }, (_, index) => `person-${index}@acme.example`)
  const statuses = await inviteAll(people)
  t.equal(statuses.filter((status) => status === 201).length, 95)
  t.equal(statuses.filter((status) => status === 429).length, 1)
  const rejected = await invite('kim@acme.example')
  matches(t, rejected, { status: 429, json: { code: 'too_many_invitations' } })
  t.equal(rejected.headers.get('retry-after'), String(24 * 3600 - 60))
  const page = await ada.submit('/settings/people', { email: 'kim@acme.example', role: 'member' })
  t.equal(page.status, 429)
  matches(t, page.text, containing('This account has sent 100 invitations within 24 hours.'))
  const other = await backend.createAccount()
  await createUser(other.id, 'oda@other.example', 'admin')
  const oda = await logIn(backend, 'oda@other.example')
  const body = { email: 'eve@acme.example', role: 'member' }
  t.equal((await oda.send('POST', '/settings/people', body)).status, 201, 'another account')
  backend.now = new Date(start + 24 * 60 * MINUTE_MS)
  const later = await logIn(backend, ADMIN)
  t.equal((await later.send('POST', '/settings/people', body)).status, 201)
})

t.test('a password that is too easy to guess does not count as an attempt to log in', async (t) => {
  // Regression: after five such passwords, an invited person had to wait before the next one.
  const { backend } = await startSettings(t)
  const ada = await logIn(backend, ADMIN)
  const invited = { email: 'eve@acme.example', role: 'member' }
  const { json } = await ada.send('POST', '/settings/people', invited)
  const code = String(json['link']).split('#')[1]
  const accept = async (password: string) =>
    (
      await backend.request('POST', '/settings/invitation', {
        headers: JSON_ONLY,
        body: { code, password },
      })
    ).status
  for (let count = 0; count < 6; count++) t.equal(await accept('password'), 422)
  t.equal(await accept('a walk along the canal'), 201)
})

t.test('accepting an invitation ends the previous session of the browser', async (t) => {
  // Regression: the cookie of the new session replaced the cookie of the previous one, which continued.
  const { backend } = await startSettings(t)
  const [ada, mia] = [await logIn(backend, ADMIN), await logIn(backend, MEMBER)]
  const body = { email: 'eve@acme.example', role: 'member' }
  const { json } = await ada.send('POST', '/settings/people', body)
  const accepted = await backend.request('POST', '/settings/invitation', {
    headers: { ...JSON_ONLY, cookie: mia.cookie },
    body: { code: String(json['link']).split('#')[1], password: 'a walk along the canal' },
  })
  t.equal(accepted.status, 201)
  t.equal((await mia.get('/settings/session')).status, 401)
  t.equal((await ada.get('/settings/session')).status, 200)
})
