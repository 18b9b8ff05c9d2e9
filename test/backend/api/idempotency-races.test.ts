import t, { type Test } from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { Database } from '../../../backend/database/database.ts'
import type { OpenDatabase } from '../../../backend/database/open.ts'
import {
  type Attempt,
  createIdempotency,
  type Idempotency,
} from '../../../backend/idempotency/idempotency.ts'
import { Problem } from '../../../shared/contract/problem.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'

const clock = () => new Date('2026-11-21T10:15:00.000Z')

interface Fixture {
  readonly database: OpenDatabase
  readonly idempotency: Idempotency
  readonly attempt: Attempt
}

async function openIdempotency(t: Test, waitMsMax = 60_000): Promise<Fixture> {
  const database = await openTestDatabase(t)
  const { id: accountId } = await database.transaction((tx) =>
    createAccount(tx, { name: 'Acme' }, { actor: OPERATOR, now: clock() }),
  )
  const idempotency = createIdempotency({ database, clock, waitMsMax })
  return {
    database,
    idempotency,
    attempt: { accountId, operation: 'createDebtor', key: 'k', fingerprint: 'f' },
  }
}

/** Returns a write that responds with the result of `respond`, and a list with one entry for each run of the write. */
function createCountingWrite(respond: () => Promise<string>) {
  const runs: number[] = []
  const prepare = () => async () => {
    runs.push(runs.length)
    return { resourceId: 'deb_1', body: await respond() }
  }
  return {
    runs,
    write: { prepare, recall: async () => undefined, originalIdMember: 'original_id' },
  }
}

t.test('a repeat during the first call gets the response of the first call', async (t) => {
  const { idempotency, attempt } = await openIdempotency(t)
  const { promise, resolve } = Promise.withResolvers<string>()
  const { runs, write } = createCountingWrite(() => promise)
  const calls = [1, 2, 3].map(() => idempotency.once(attempt, write))
  resolve('the response')
  const outcomes = await Promise.all(calls)
  t.strictSame(
    outcomes.map(({ body }) => body),
    ['the response', 'the response', 'the response'],
  )
  t.strictSame(
    outcomes.map(({ replayed }) => replayed),
    [false, true, true],
  )
  t.equal(runs.length, 1)
})

t.test('if the first call is rejected, the next waiting call runs', async (t) => {
  const { idempotency, attempt } = await openIdempotency(t)
  let rejections = 2
  const { runs, write } = createCountingWrite(async () => {
    if (rejections-- > 0) throw new Problem('not_found', 'rejected')
    return 'done'
  })
  const results = await Promise.allSettled(
    Array.from({ length: 5 }, () => idempotency.once(attempt, write)),
  )
  const fulfilled = results.filter(({ status }) => status === 'fulfilled')
  t.equal(fulfilled.length, 3)
  t.equal(
    runs.length,
    3,
    'two runs are rejected and one is recorded; the other two calls are replays',
  )
})

t.test(
  'a repeat that waits too long gets 409 with Retry-After, and the first call continues',
  async (t) => {
    const { idempotency, attempt } = await openIdempotency(t, 1)
    const { promise, resolve } = Promise.withResolvers<string>()
    const { write } = createCountingWrite(() => promise)
    const first = idempotency.once(attempt, write)
    await rejectsWith(t, idempotency.once(attempt, write), {
      code: 'idempotency_in_progress',
      headers: { 'retry-after': '1' },
    })
    resolve('done')
    matches(t, await first, { body: 'done', replayed: false })
    matches(t, await idempotency.once(attempt, write), { body: 'done', replayed: true })
  },
)

t.test('a call with another key or operation is not a repeat', async (t) => {
  const { idempotency, attempt, database } = await openIdempotency(t)
  const { write } = createCountingWrite(async () => 'done')
  const others = [{ ...attempt, key: 'l' }, { ...attempt, operation: 'createInvoice' }, attempt]
  for (const other of others) {
    matches(t, await idempotency.once(other, write), { replayed: false })
  }
  const rows = await database.read.selectFrom('idempotency_keys').select('key').execute()
  t.equal(rows.length, 3)
})

t.test(
  'only a repeat waits for a call in progress, not another account, operation or key',
  async (t) => {
    const { idempotency, attempt, database } = await openIdempotency(t, 1)
    const otherAccount = await database.transaction((tx) =>
      createAccount(tx, { name: 'Globex' }, { actor: OPERATOR, now: clock() }),
    )
    const { promise, resolve } = Promise.withResolvers<string>()
    const first = idempotency.once(attempt, createCountingWrite(() => promise).write)
    const others = [
      { ...attempt, accountId: otherAccount.id },
      { ...attempt, operation: 'createInvoice' },
      { ...attempt, key: 'l' },
    ]
    const { write } = createCountingWrite(async () => 'done')
    const calls = []
    for (const other of others) {
      const { promise: prepared, resolve: setPrepared } = Promise.withResolvers<void>()
      const prepare = () => {
        setPrepared()
        return write.prepare()
      }
      const call = idempotency.once(other, { ...write, prepare })
      calls.push(call)
      // A call that waits is rejected.
      await Promise.race([prepared, call])
    }
    resolve('the response')
    for (const call of [first, ...calls]) matches(t, await call, { replayed: false })
  },
)

t.test(
  'if another process commits a response first, the call gets it, even if its own write fails',
  async (t) => {
    const outcomes = {
      recorded: async () => ({ resourceId: 'deb_2', body: 'another response' }),
      rejected: async () => {
        throw new Problem('payment_exceeds_balance', 'the other process has just paid the invoice')
      },
    }
    for (const [name, respond] of Object.entries(outcomes)) {
      const { idempotency: otherProcess, database, attempt } = await openIdempotency(t)
      const { write } = createCountingWrite(async () => 'the response')
      const lateDatabase: Database = {
        read: database.read,
        isConcurrent: database.isConcurrent,
        listen: database.listen,
        clockFault: undefined,
        // The other process commits between the look-up and the transaction of this process.
        async transaction(work) {
          await otherProcess.once(attempt, write)
          return database.transaction(work)
        },
        close: () => database.close(),
      }
      const idempotency = createIdempotency({ database: lateDatabase, clock })
      const response = await idempotency.once(attempt, { ...write, prepare: () => respond })
      matches(t, response, { resourceId: 'deb_1', body: 'the response', replayed: true }, name)
    }
  },
)
