import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { revokeApiKey } from '../../../backend/api-keys/api-keys.ts'
import {
  changeApiKey,
  type GracePeriod,
  rotateApiKey,
} from '../../../backend/api-keys/key-changes.ts'
import { recordKeyExpiry } from '../../../backend/api-keys/key-expiry.ts'
import { listKeyPage } from '../../../backend/api-keys/key-list.ts'
import { digestApiKey } from '../../../shared/contract/api-key.ts'
import {
  CLIENT_ADDRESS_HEADER,
  PRINCIPAL_REJECTION_HEADER,
} from '../../../shared/contract/principal.ts'
import { openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { rejectsWith } from '../../fixtures/matches.ts'
import { PEPPERS } from '../../fixtures/service/backend.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

const webhooks = await openWebhooks(t)
const { backend, accountId } = webhooks.testAccount
const { database } = backend
await webhooks.createEndpoint('https://example.com/hook')
const START = backend.now.getTime()

const actionContext = () => ({ actor: OPERATOR, now: backend.now })
const at = (ms: number) => new Date(START + ms)
const inTransaction: typeof database.transaction = (work) => database.transaction(work)

async function eventsOf(id: string) {
  const rows = await database.read
    .selectFrom('webhook_events')
    .select(['type', 'body'])
    .where('subject_id', '=', id)
    .orderBy('id')
    .execute()
  return rows.map(({ type, body }) => ({ type, ...JSON.parse(body).data }))
}

async function noticesOf(id: string) {
  const rows = await database.read
    .selectFrom('notices')
    .select(['kind', 'detail'])
    .where('subject_id', '=', id)
    .execute()
  return rows.map(({ kind, detail }) => ({ kind, ...JSON.parse(detail) }))
}

async function outcomeAt(now: Date, key: Parameters<typeof backend.principalOf>[0]) {
  backend.now = now
  const { status, headers } = await backend.call(key, 'GET', '/api/v1/me', {
    headers: { [CLIENT_ADDRESS_HEADER]: '203.0.113.9' },
  })
  return headers.get(PRINCIPAL_REJECTION_HEADER) ?? status
}

t.afterEach(() => {
  backend.now = at(0)
})

t.test(
  'the expiry of a key is announced once 14 days before and once 1 day before, and recorded once',
  async (t) => {
    const expiresAt = at(30 * DAY_MS)
    const key = await backend.issueKey(accountId, { name: 'Shop', expiresAt })
    const { id, prefix } = key.row
    const seen: string[] = []
    for (const day of [15.9, 16, 16.1, 28.9, 29, 29.1, 29.99, 30, 31]) {
      const before = (await eventsOf(id)).length
      await recordKeyExpiry(database, at(day * DAY_MS))
      await recordKeyExpiry(database, at(day * DAY_MS))
      seen.push(...(await eventsOf(id)).slice(before).map(({ type }) => `${day}: ${type}`))
    }
    t.strictSame(seen, ['16: api_key.expiring', '29: api_key.expiring', '30: api_key.expired'])
    const notice = {
      kind: 'api_key.expiring',
      name: 'Shop',
      prefix,
      expires_at: expiresAt.toISOString(),
    }
    t.strictSame(await noticesOf(id), [notice, notice])
    const events = await eventsOf(id)
    t.equal(events.at(-1).object.status, 'expired')
    t.strictSame(
      events.map(({ previous }) => previous),
      [null, null, null, { status: 'active' }],
    )
  },
)

t.test('an expiry that is set after the key was issued is announced and recorded', async (t) => {
  const { row } = await backend.issueKey(accountId)
  await inTransaction((tx) =>
    changeApiKey(tx, row.id, { expiresAt: at(20 * DAY_MS) }, actionContext()),
  )
  for (const day of [6, 19, 20]) await recordKeyExpiry(database, at(day * DAY_MS))
  const types = (await eventsOf(row.id)).map(({ type }) => type)
  const announced = ['api_key.expiring', 'api_key.expiring', 'api_key.expired']
  t.strictSame(types, ['api_key.issued', 'api_key.updated', ...announced])
})

t.test('two backends that run at the same time announce the expiry of a key once', async (t) => {
  const { row } = await backend.issueKey(accountId, { expiresAt: at(20 * DAY_MS) })
  for (const day of [6, 20]) {
    await Promise.all([1, 2].map(() => recordKeyExpiry(database, at(day * DAY_MS))))
  }
  const types = (await eventsOf(row.id)).map(({ type }) => type)
  t.strictSame(types, ['api_key.issued', 'api_key.expiring', 'api_key.expired'])
  t.equal((await noticesOf(row.id)).length, 1)
})

t.test('a worker that did not run in time skips the warnings that it missed', async (t) => {
  const { row } = await backend.issueKey(accountId, { expiresAt: at(30 * DAY_MS) })
  await recordKeyExpiry(database, at(31 * DAY_MS))
  const types = (await eventsOf(row.id)).map(({ type }) => type)
  t.strictSame(types, ['api_key.issued', 'api_key.expired'])
  t.strictSame(await noticesOf(row.id), [])
})

t.test('the expiry of a revoked key is not announced', async (t) => {
  const { row } = await backend.issueKey(accountId, { expiresAt: at(DAY_MS) })
  await inTransaction((tx) => revokeApiKey(tx, row.id, actionContext()))
  await recordKeyExpiry(database, at(2 * DAY_MS))
  const types = (await eventsOf(row.id)).map(({ type }) => type)
  t.strictSame(types, ['api_key.issued', 'api_key.revoked'])
})

t.test('the backend rejects a key from the instant of its expiry', async (t) => {
  const key = await backend.issueKey(accountId, { expiresAt: at(HOUR_MS) })
  t.equal(await outcomeAt(at(HOUR_MS - 1), key), 200)
  t.equal(await outcomeAt(at(HOUR_MS), key), 'key_expired')
  const digest = { digest: digestApiKey(key.secret) }
  const lookUp = await backend.request('POST', '/internal/api-keys/look-up', { body: digest })
  t.strictSame(lookUp.json, { found: true, revoked: false, expired: true })
  await recordKeyExpiry(database, at(HOUR_MS))
  t.equal(
    await outcomeAt(at(HOUR_MS - 1), key),
    'key_expired',
    'rejected even if the clock is behind',
  )
  const idsWith = async (status: 'active' | 'expired') => {
    const query = { status, after: undefined, now: at(HOUR_MS - 1) }
    return (await listKeyPage(database.read, accountId, query, 100)).map(({ id }) => id)
  }
  t.ok((await idsWith('expired')).includes(key.row.id), 'listed as expired, too')
  t.notOk((await idsWith('active')).includes(key.row.id))
})

t.test('the backend checks the address of the client again, after the gateway', async (t) => {
  const key = await backend.issueKey(accountId, { allowedAddresses: ['203.0.113.0/24'] })
  const statusFrom = async (address: string | undefined) => {
    const headers = address === undefined ? {} : { [CLIENT_ADDRESS_HEADER]: address }
    const { status, json } = await backend.call(key, 'GET', '/api/v1/me', { headers })
    return status === 200 ? 200 : json['code']
  }
  t.equal(await statusFrom('203.0.113.9'), 200)
  t.equal(await statusFrom('198.51.100.7'), 'address_not_allowed')
  t.equal(await statusFrom(undefined), 'address_not_allowed')
})

t.test('only changes that affect authentication raise the revision of a key', async (t) => {
  const { row } = await backend.issueKey(accountId)
  const revisions = [row.revision]
  for (const change of [
    { name: 'Renamed' },
    { allowedAddresses: ['203.0.113.7'] },
    { expiresAt: at(HOUR_MS) },
    { expiresAt: at(HOUR_MS) },
  ]) {
    revisions.push(
      (await inTransaction((tx) => changeApiKey(tx, row.id, change, actionContext()))).revision,
    )
  }
  t.strictSame(revisions, [1, 1, 2, 3, 3])
})

t.test('an expiry can only be moved to an earlier time', async (t) => {
  const { row } = await backend.issueKey(accountId, { expiresAt: at(2 * DAY_MS) })
  const change = (expiresAt: Date | null) =>
    inTransaction((tx) => changeApiKey(tx, row.id, { expiresAt }, actionContext()))
  for (const later of [at(3 * DAY_MS), null]) {
    await rejectsWith(t, change(later), { code: 'validation_failed' })
  }
  await rejectsWith(t, change(at(-1)), { code: 'validation_failed' })
  t.equal((await change(at(DAY_MS))).expires_at, at(DAY_MS).toISOString())
})

t.test(
  'a rotation copies scopes, rate limit and addresses; the old key ends after the grace period',
  async (t) => {
    const graces: [grace: GracePeriod, outcomes: unknown[]][] = [
      ['now', ['key_revoked', 'key_revoked', 'key_revoked']],
      ['1h', [200, 'key_expired', 'key_expired']],
      ['24h', [200, 200, 'key_expired']],
    ]
    for (const [grace, outcomes] of graces) {
      const old = await backend.issueKey(accountId, {
        scopes: ['invoices:read'],
        rateLimit: 7,
        allowedAddresses: ['203.0.113.0/24'],
      })
      const rotation = { name: 'Next', expiresAt: null, grace }
      const { row, replaced } = await inTransaction((tx) =>
        rotateApiKey(tx, old.row.id, rotation, PEPPERS, actionContext()),
      )
      t.strictSame(
        [row.name, row.granted_scopes, row.rate_limit, row.allowed_addresses, row.expires_at],
        ['Next', '["invoices:read"]', 7, '["203.0.113.0/24"]', null],
      )
      t.equal(replaced.replaced_by, row.id)
      t.ok(replaced.revision > old.row.revision, 'a cached principal of the old key is outdated')
      const times = [at(HOUR_MS - 1), at(HOUR_MS), at(DAY_MS)]
      const seen: unknown[] = []
      for (const time of times) seen.push(await outcomeAt(time, old))
      t.strictSame(seen, outcomes, grace)
      backend.now = at(0)
      const secondRotation = inTransaction((tx) =>
        rotateApiKey(tx, old.row.id, rotation, PEPPERS, actionContext()),
      )
      await rejectsWith(t, secondRotation, { code: 'key_not_active' })
    }
  },
)

t.test('the grace period of a rotation never postpones the expiry of the old key', async (t) => {
  const old = await backend.issueKey(accountId, { expiresAt: at(HOUR_MS) })
  const rotation = { name: 'Next', expiresAt: null, grace: '7d' } as const
  const { replaced } = await inTransaction((tx) =>
    rotateApiKey(tx, old.row.id, rotation, PEPPERS, actionContext()),
  )
  t.equal(replaced.expires_at, at(HOUR_MS).toISOString())
  t.equal(replaced.revision, old.row.revision + 1)
})
