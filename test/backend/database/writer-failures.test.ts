/**
 * Injects a failure at each call of SQLite's writing connection, one after another, and compares the rows in the
 * database with the outcome of each transaction.
 */
import { join } from 'node:path'
import type { CompiledQuery } from 'kysely'
import sqlite3 from 'sqlite3'
import t from 'tap'
import { prepared } from '../../../backend/database/prepared.ts'
import { SqliteConnection } from '../../../backend/database/sqlite/connection.ts'
import { kyselyOnConnection } from '../../../backend/database/sqlite/kysely.ts'
import { WriteQueue } from '../../../backend/database/sqlite/write-queue.ts'
import type { AuditRow, Tables, Transaction } from '../../../backend/database/tables.ts'
import { unavailable } from '../../../backend/database/unavailable.ts'
import { Problem } from '../../../shared/contract/problem.ts'
import { insertRow, openTestDatabase, readRowIds, SILENT } from '../../fixtures/service/database.ts'

const FAILURES = {
  'only the statement fails': { isEnvironmental: false, before: '' },
  'the transaction can continue': { isEnvironmental: true, before: '' },
  'SQLite ends the transaction': { isEnvironmental: true, before: 'rollback' },
} as const

type Failure = keyof typeof FAILURES

interface Injection {
  /** The number of the call that fails. */
  readonly at: number
  readonly failure: Failure
  /** The number of calls since the injection was armed. */
  calls: number
  isArmed: boolean
}

/** A connection of which one call fails. */
class FailingConnection {
  readonly #connection: SqliteConnection
  readonly #injection: Injection
  #fault: Error | undefined

  constructor(connection: SqliteConnection, injection: Injection) {
    this.#connection = connection
    this.#injection = injection
  }

  get fault() {
    return this.#fault ?? this.#connection.fault
  }

  async exec(sql: string) {
    await this.#fail()
    return await this.#connection.exec(sql)
  }

  async executeQuery<R>(query: CompiledQuery) {
    await this.#fail()
    return await this.#connection.executeQuery<R>(query)
  }

  async commit(sql: string) {
    await this.#fail()
    return await this.#connection.commit(sql)
  }

  close() {
    return this.#connection.close()
  }

  async #fail(): Promise<void> {
    const injection = this.#injection
    if (!injection.isArmed) return
    injection.calls++
    if (injection.calls !== injection.at) return
    const { isEnvironmental, before } = FAILURES[injection.failure]
    if (!isEnvironmental) throw Object.assign(new Error('injected'), { errno: sqlite3.TOOBIG })
    await this.#connection.exec(before).catch(() => 'no transaction is open')
    this.#fault = Object.assign(new Error('injected'), { errno: sqlite3.IOERR })
    throw unavailable(this.#fault)
  }
}

const insertAuditRow = prepared((tx: Transaction, row: AuditRow) =>
  tx.insertInto('audit_log').values(row),
)

const findAuditRow = prepared((tx: Transaction, { id }: { id: string }) =>
  tx.selectFrom('audit_log').selectAll().where('id', '=', id),
)

/** Copies the row `from` with writes that can be combined with those of other transactions. */
async function copyRow(tx: Transaction, from: string, ids: readonly string[]) {
  const [row] = await findAuditRow(tx, { id: from })
  if (row === undefined) throw new Error(`there is no row ${from}`)
  for (const id of ids) await insertAuditRow(tx, { ...row, id })
}

type Work = (tx: Transaction, ids: readonly string[]) => Promise<unknown>

const deferred: Work = (tx, ids) => copyRow(tx, 'origin', ids)

const immediate: Work = async (tx, [first = '', ...others]) => {
  await insertRow(tx, first)
  await copyRow(tx, first, others)
}

const failing =
  (work: Work): Work =>
  async (tx, ids) => {
    await work(tx, ids)
    throw new Error('rejected')
  }

const violating: Work = (tx, [first = '']) => copyRow(tx, 'origin', [first, 'origin'])

/** The transactions of a group, by name. Those whose name begins with `d` have a debtor, so they may be concurrent. */
const WITHOUT_VIOLATIONS = {
  n1: deferred,
  d1: deferred,
  d2: immediate,
  d3: failing(deferred),
  d4: deferred,
  n2: immediate,
  n3: failing(immediate),
  d5: deferred,
  d6: deferred,
}
const GROUPS: readonly Readonly<Record<string, Work>>[] = [
  WITHOUT_VIOLATIONS,
  { ...WITHOUT_VIOLATIONS, d7: violating, d8: deferred },
  { n1: deferred, d1: deferred, d2: violating, d3: failing(immediate), d4: deferred },
  { d1: failing(immediate) },
]

t.test('the outcome of each transaction matches its rows, whichever call fails', async (t) => {
  const path = join(t.testdir(), 'test.db')
  const database = await openTestDatabase(t, { url: `sqlite:${path}` })
  await database.transaction((tx) => insertRow(tx, 'origin'))

  /** Runs the transactions of the group, and fails the test if an outcome that is known does not match the rows. */
  async function runGroup(
    prefix: string,
    group: Readonly<Record<string, Work>>,
    injection: Injection,
  ) {
    const queue = new WriteQueue({
      // The queue uses no other members of a connection.
      open: async () =>
        new FailingConnection(
          await SqliteConnection.open(path, 'write'),
          injection,
        ) as unknown as SqliteConnection,
      log: SILENT,
      waitMsMax: 5000,
      readers: { pause() {}, resume() {} },
    })
    const add = (work: (tx: Transaction) => Promise<unknown>, debtorId?: string) =>
      queue.add((connection) => work(kyselyOnConnection<Tables>(connection)), {
        accountId: 'a',
        debtorId,
      })
    // Creates the views through which writes are combined.
    await add((tx) => copyRow(tx, 'origin', [`${prefix}w1`, `${prefix}w2`]))
    await add(async () => {})
    injection.isArmed = true
    const outcomes = await Promise.all(
      Object.entries(group).map(async ([name, work]) => {
        const ids = [`${prefix}${name}-1`, `${prefix}${name}-2`]
        const debtorId = name.startsWith('d') ? name : undefined
        const [outcome] = await Promise.allSettled([add((tx) => work(tx, ids), debtorId)])
        return { name, ids, outcome }
      }),
    )
    injection.isArmed = false
    await add((tx) => insertRow(tx, `${prefix}after`))
    const rows = await readRowIds(database)
    await queue.close()
    for (const { name, ids, outcome } of outcomes) {
      const found = ids.filter((id) => rows.includes(id)).length
      const isUnknown =
        outcome.status === 'rejected' &&
        outcome.reason instanceof Problem &&
        outcome.reason.code === 'gateway_timeout'
      const expected = outcome.status === 'fulfilled' ? ids.length : 0
      if (found !== expected && !isUnknown) {
        t.fail(`${prefix}${name} was ${outcome.status}, but has ${found} rows`)
      }
    }
    if (!rows.includes(`${prefix}after`)) t.fail(`${prefix} the next transaction was not recorded`)
  }

  for (const failure of Object.keys(FAILURES) as Failure[]) {
    for (const [number, group] of GROUPS.entries()) {
      let injection: Injection
      let at = 0
      do {
        at++
        injection = { at, failure, calls: 0, isArmed: false }
        await runGroup(`group ${number}, ${failure} at ${at}: `, group, injection)
      } while (injection.calls >= at)
      t.ok(at > 3, `${failure}, group ${number}: ${at} calls`)
    }
  }
})
