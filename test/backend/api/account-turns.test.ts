// No account waits for all waiting writes of another account, whether it writes through the API or in Settings.
import t from 'tap'
import type { IssuedApiKey } from '../../../backend/api-keys/api-keys.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { ADMIN, logIn, startSettings } from '../../fixtures/service/settings.ts'
import { until } from '../../fixtures/service/until.ts'

/** How many writes of the busy account wait. */
const BUSY = 20

// Regression: all transactions waited in one queue.
t.test('the writes of an account do not wait for all writes of another account', async (t) => {
  // On PostgreSQL, this leaves one connection for transactions.
  const database = await openTestDatabase(t, { connectionsMax: 3, waitMsMax: 30_000 })
  const { backend } = await startSettings(t, { database })
  const session = await logIn(backend, ADMIN)
  const [busyKey, secondKey, thirdKey] = [
    await backend.createKey(),
    await backend.createKey(),
    await backend.createKey(),
  ]
  const create = (key: IssuedApiKey, headers = {}) =>
    backend.call(key, 'POST', '/api/v1/debtors', { body: { name: 'Globex' }, headers })

  const began = Promise.withResolvers<void>()
  const mayEnd = Promise.withResolvers<void>()
  const blocker = database.transaction(() => {
    began.resolve()
    return mayEnd.promise
  })
  await began.promise
  const untilWaiting = (count: number) =>
    until(() => database.activity().waiting >= count, `${count} transactions wait`)
  const busyCalls = Array.from({ length: BUSY }, () => create(busyKey))
  await untilWaiting(BUSY)
  const calls = [create(secondKey), create(thirdKey, { 'idempotency-key': 'globex' })]
  const logout = session.send('POST', '/settings/logout')
  await untilWaiting(BUSY + calls.length + 1)
  mayEnd.resolve()
  await blocker

  const created = (await Promise.all([...busyCalls, ...calls])).map(({ json }) => json['id'])
  await logout
  const { id: auditId } = await database.read
    .selectFrom('audit_log')
    .select('id')
    .where('action', '=', 'user.logged_out')
    .executeTakeFirstOrThrow()
  // Ids sort by the time of their creation, which is inside the transaction.
  const [all, others] = [
    [...created, auditId],
    [...created.slice(BUSY), auditId],
  ].map((ids) => ids.map((id) => String(id).split('_')[1] ?? ''))
  t.equal(new Set(all).size, BUSY + 3, 'all writes succeeded')
  const positions = others?.map((id) => all?.toSorted().indexOf(id) ?? -1) ?? []
  t.equal(positions.length, 3)
  t.ok(
    positions.every((position) => position <= 4),
    `the other accounts' writes are at the positions ${positions}, all at most 4`,
  )
})
