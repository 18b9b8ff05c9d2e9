// Expiry and allowed addresses of API keys, and the rotation of keys, in Settings.
import t from 'tap'
import { matches } from '../../fixtures/matches.ts'
import { ADMIN, logIn, MEMBER, startSettings } from '../../fixtures/service/settings.ts'

const { backend, account, createUser } = await startSettings(t)
const ada = await logIn(backend, ADMIN)
const mia = await logIn(backend, MEMBER)
const outsider = await backend.createAccount({ name: 'Other Ltd' })
await createUser(outsider.id, 'eve@other.example', 'admin')
const eve = await logIn(backend, 'eve@other.example')

const PATH = '/settings/api-keys'
const LIMITS = {
  expires_at: '2027-01-01T00:00:00+01:00',
  allowed_addresses: ['203.0.113.7', '2001:DB8:7::/48', '203.0.113.7'],
}

async function issue(input: object = {}) {
  const body = { name: 'ERP', scopes: ['debtors:read'], ...input }
  return (await ada.send('POST', PATH, body)).json
}

t.test('a key is issued with an expiry and allowed addresses in one request', async (t) => {
  const { expires_at, allowed_addresses, status, unused } = await issue(LIMITS)
  t.strictSame(
    { expires_at, allowed_addresses, status, unused },
    {
      expires_at: '2026-12-31T23:00:00.000Z',
      allowed_addresses: ['203.0.113.7/32', '2001:db8:7::/48'],
      status: 'active',
      unused: false,
    },
  )
})

t.test('every invalid limit is reported beside its field', async (t) => {
  const faults = async (input: object) => {
    const { json } = await ada.send('POST', PATH, {
      name: 'ERP',
      scopes: ['debtors:read'],
      ...input,
    })
    const errors = json['errors']
    return Array.isArray(errors) ? errors.map(({ pointer, detail }) => [pointer, detail]) : json
  }
  t.strictSame(
    await faults({ expires_at: '2026-11-21T10:15:00Z', allowed_addresses: ['10.1/8'] }),
    [
      ['/expires_at', 'The expiry must be in the future.'],
      ['/allowed_addresses', '10.1/8 is not an IPv4 or IPv6 address.'],
    ],
  )
  // 21 November 2026 and 3,660 days, and one second more.
  t.strictSame(await faults({ expires_at: '2036-11-28T10:15:01Z' }), [
    ['/expires_at', 'The expiry may be at most 3,660 days (about ten years) from now.'],
  ])
  matches(t, await faults({ expires_at: '2036-11-28T10:15:00Z' }), { object: 'api_key' })
  t.strictSame(await faults({ expires_at: 'tomorrow' }), [
    ['/expires_at', 'The expiry must be a time with a UTC offset.'],
  ])
  const many = Array.from({ length: 51 }, (_, n) => `10.0.0.${n}`)
  t.strictSame(await faults({ allowed_addresses: many }), [
    ['/allowed_addresses', 'A key may have at most 50 allowed addresses.'],
  ])
})

t.test('the form shows the last day of use in the time zone of the account', async (t) => {
  const { id } = await issue()
  const path = `${PATH}/${id}`
  const fields = {
    name: 'Shop',
    expires_on: '2026-12-31',
    allowed_addresses: '10.0.0.0/8\r\n\r\n::1',
  }
  const changed = await ada.submit(path, fields)
  t.strictSame([changed.status, changed.headers.get('location')], [303, path])
  const { json } = await ada.get(path)
  t.strictSame(
    [json['name'], json['expires_at'], json['allowed_addresses']],
    ['Shop', '2026-12-31T23:00:00.000Z', ['10.0.0.0/8', '::1/128']],
  )
  const page = await ada.page(`${path}/edit`)
  for (const value of ['value="Shop"', 'value="2026-12-31"', '10.0.0.0/8\n::1/128</textarea>']) {
    t.ok(page.text.includes(value), value)
  }
  const later = await ada.submit(path, { ...fields, expires_on: '2027-01-01' })
  t.equal(later.status, 422)
  t.ok(later.text.includes('The expiry can only be moved to an earlier time.'))
  t.ok(later.text.includes('value="2027-01-01"'), 'the form keeps the entered day')
})

t.test('if the day in the form is unchanged, the stored time of the expiry is kept', async (t) => {
  const { id } = await issue({ expires_at: '2026-12-31T12:00:00Z' })
  const path = `${PATH}/${id}`
  const changed = await ada.submit(path, { name: 'Shop', expires_on: '2026-12-31' })
  t.equal(changed.status, 303)
  t.equal((await ada.get(path)).json['expires_at'], '2026-12-31T12:00:00.000Z')
})

t.test('a rotation shows the new secret once, and the old key links to the new one', async (t) => {
  const { id } = await issue(LIMITS)
  const path = `${PATH}/${id}`
  const rotated = await ada.send('POST', `${path}/rotate`, { grace: '24h', submission: 'once' })
  t.equal(rotated.status, 201)
  matches(t, rotated.json['secret'], /^rcv_/)
  const { json } = await ada.get(path)
  t.strictSame(
    [json['replaced_by'], json['expires_at'], json['status']],
    [rotated.json['id'], '2026-11-22T10:15:00.000Z', 'active'],
  )
  const again = await ada.send('POST', `${path}/rotate`, { grace: '24h', submission: 'once' })
  t.strictSame([again.status, again.json['code']], [409, 'key_not_active'])
  const page = await ada.page(path)
  t.ok(page.text.includes(`href="${PATH}/${rotated.json['id']}"`))
  t.notOk(page.text.includes(`${path}/rotate`), 'a second rotation is not offered')
})

t.test('the page of the new secret says how long the old key works', async (t) => {
  const rotate = async (fields: Record<string, string>, limits = {}) => {
    const { id } = await issue(limits)
    const { text } = await ada.submit(`${PATH}/${id}/rotate`, fields)
    return { reveal: text, list: (await ada.page(PATH)).text }
  }
  const later = await rotate({ grace: '24h' })
  matches(t, later.reveal, /The old key.*works until.*22 Nov 2026, \d\d:15/s)
  matches(t, later.list, /Key rotated\. Switch your integration to the new key/)
  const now = await rotate({ grace: 'now' }, { expires_at: '2026-12-31T12:00:00Z' })
  matches(t, now.reveal, /The old key.*no longer works/s)
  matches(t, now.list, /Key rotated\. The old key no longer works/)
})

t.test('a grace period that is not offered is rejected', async (t) => {
  const { id } = await issue()
  const wrong = await ada.send('POST', `${PATH}/${id}/rotate`, { grace: '2h' })
  t.strictSame(wrong.json['errors'], [
    {
      pointer: '/grace',
      code: 'invalid_enum',
      detail: 'Choose when the old key stops working: now, 1h, 24h or 7d.',
    },
  ])
})

t.test('Members can only see the limits of a key; other accounts cannot see the key', async (t) => {
  const { id } = await issue(LIMITS)
  const requests: [method: string, path: string, body?: object][] = [
    ['PUT', `${PATH}/${id}`, { name: 'Mine' }],
    ['POST', `${PATH}/${id}`, { name: 'Mine' }],
    ['POST', `${PATH}/${id}/rotate`, { grace: 'now' }],
    ['GET', `${PATH}/${id}/edit`],
    ['GET', `${PATH}/${id}/rotate`],
  ]
  for (const [method, path, body] of requests) {
    t.equal((await mia.send(method, path, body)).status, 403, `${method} ${path} by a Member`)
    t.equal(
      (await eve.send(method, path, body)).status,
      404,
      `${method} ${path} by another account`,
    )
  }
  t.strictSame((await mia.get(`${PATH}/${id}`)).json['allowed_addresses'], [
    '203.0.113.7/32',
    '2001:db8:7::/48',
  ])
  t.equal((await ada.get(`${PATH}/${id}`)).json['name'], 'ERP')
})

t.test('the list of ended keys names only the statuses that occur', async (t) => {
  const before = backend.now
  const expiresAt = new Date(before.getTime() + 86_400_000)
  const body = { name: 'Ends', scopes: ['debtors:read'], expires_at: expiresAt.toISOString() }
  await eve.send('POST', PATH, body)
  backend.now = expiresAt
  const later = await logIn(backend, 'eve@other.example')
  t.ok((await later.page(PATH)).text.includes('Show expired (1)'))
  const { id } = (await later.send('POST', PATH, { name: 'Other', scopes: ['debtors:read'] })).json
  await later.send('POST', `${PATH}/${id}/revoke`, {})
  t.ok((await later.page(PATH)).text.includes('Show expired or revoked (2)'))
  backend.now = before
})

t.test('unused and expired keys are marked, and every change is in the audit log', async (t) => {
  const { id } = await issue({ name: 'Old', expires_at: '2027-03-01T00:00:00Z' })
  await ada.send('PUT', `${PATH}/${id}`, { name: 'Older' })
  const before = backend.now
  backend.now = new Date(before.getTime() + 90 * 86_400_000)
  const late = await logIn(backend, ADMIN)
  const { json } = await late.get(`${PATH}/${id}`)
  t.strictSame([json['unused'], json['status']], [true, 'active'])
  t.ok((await late.page(PATH)).text.includes('Unused for 90 days'))
  backend.now = new Date('2027-03-01T00:00:00Z')
  const later = await logIn(backend, ADMIN)
  t.equal((await later.get(`${PATH}/${id}`)).json['status'], 'expired')
  const expired = await later.get(`${PATH}?status=expired`)
  t.ok(JSON.stringify(expired.json['data']).includes(String(id)))
  const count = (expired.json['data'] as unknown[]).length
  const page = await later.page(`${PATH}?status=expired`)
  t.ok(page.text.includes(`Show expired (${count})`))
  const rotate = await later.send('POST', `${PATH}/${id}/rotate`, { grace: '1h' })
  t.equal(rotate.json['code'], 'key_not_active')
  backend.now = before
  const entries = await backend.database.read
    .selectFrom('audit_log')
    .select('action')
    .where('account_id', '=', account.id)
    .where('subject_id', '=', String(id))
    .orderBy('id')
    .execute()
  t.strictSame(
    entries.map(({ action }) => action),
    ['api_key.issued', 'api_key.updated'],
  )
})
