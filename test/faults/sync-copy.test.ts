// A client synchronizes its copy while writers change records through two backends whose clocks differ.
import { randomInt } from 'node:crypto'
import t from 'tap'
import { startBackend, type TestBackend } from '../fixtures/service/backend.ts'
import { openTestDatabase } from '../fixtures/service/database.ts'
import { newPostgresUrl } from '../fixtures/service/database-url.ts'
import { byId, createSyncedCopy } from '../fixtures/service/synced-copy.ts'

/** How long the writers run. `SYNC_SECONDS=300` makes rare faults more likely. */
const SECONDS = Number(process.env['SYNC_SECONDS'] ?? 8)
const WRITERS = 8
/** The clock of the second backend is this far ahead. */
const AHEAD_MS = 20_000
const TYPES = ['debtors', 'invoices', 'payments'] as const

t.test(
  'the synchronized copy equals the stored records in every field',
  { timeout: 0 },
  async (t) => {
    const url = await newPostgresUrl(t)
    const clocks = [() => new Date(), () => new Date(Date.now() + AHEAD_MS)]
    const backends: TestBackend[] = []
    for (const clock of clocks) {
      const database = await openTestDatabase(t, { url })
      backends.push(await startBackend(t, { database, clock }))
    }
    const [first] = backends
    if (first === undefined) throw new Error('there is no backend')
    const key = await first.createKey()
    let calls = 0
    let retries = 0
    const call = async (method: string, path: string, body?: object) => {
      const backend = backends[calls++ % backends.length] ?? first
      const headers = { 'idempotency-key': `sync-${calls}` }
      while (true) {
        // The call is signed at the real time, which both backends accept.
        backend.now = new Date()
        const sent = body === undefined ? {} : { body, headers }
        const response = await backend.call(key, method, path, sent)
        // Eight writers share four debtors, so a call may wait for a lock until its deadline.
        if (response.status !== 503) return response
        retries++
      }
    }
    const create = async (type: string, body: object) => {
      const { status, json, text } = await call('POST', `/api/v1/${type}`, body)
      if (status !== 201) throw new Error(text)
      return String(json['id'])
    }
    const debtors = await Promise.all(
      Array.from({ length: 4 }, (_, index) => create('debtors', { name: `Customer ${index}` })),
    )
    let isOver = false
    async function write(): Promise<number> {
      let writes = 0
      for (; !isOver; writes++) {
        const debtor_id = debtors[randomInt(debtors.length)]
        const money = { currency: 'EUR', amount: randomInt(1, 1000) }
        const invoice_id = await create('invoices', { debtor_id, ...money, amount: 1000 })
        await create('payments', { invoice_id, ...money })
        await create('payments', { debtor_id, ...money })
      }
      return writes
    }
    const copies = TYPES.map((type) => createSyncedCopy(type, 200, (path) => call('GET', path)))
    const writing = Promise.all(Array.from({ length: WRITERS }, write))
    const end = Date.now() + SECONDS * 1000
    let runs = 0
    while (Date.now() < end) {
      // Every third run is killed at a random page, if it reads that many.
      const killedAt = runs++ % 3 === 0 ? randomInt(10) : -1
      for (const copy of copies) await copy.run(new Date(), async (page) => page !== killedAt)
    }
    isOver = true
    const writes = (await writing).reduce((sum, each) => sum + each, 0)
    for (const [index, copy] of copies.entries()) {
      await copy.run(new Date())
      t.strictSame(byId(copy.objects), byId(await copy.readAll()), String(TYPES[index]))
    }
    t.comment(`${writes} rounds of writes, ${runs} runs, ${retries} calls repeated after a 503`)
  },
)
