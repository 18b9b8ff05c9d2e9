/**
 * `UV_THREADPOOL_SIZE=16 node test/load/reminders.ts [DEBTORS]`: measures how long a planning run takes for ten
 * thousand debtors with a hundred thousand open invoices, how long payments take during this run, and how long a
 * planning run with nothing to do takes. The database is a new SQLite file, or the empty database of DATABASE_URL.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createAccount } from '../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { type OpenDatabase, openDatabase } from '../../backend/database/open.ts'
import type { DebtorRow, InvoiceRow } from '../../backend/database/tables.ts'
import { createDebtor } from '../../backend/debtors/debtors.ts'
import { createInvoice } from '../../backend/invoices/invoices.ts'
import { recordPayment } from '../../backend/payments/payments.ts'
import { runPlanning } from '../../backend/reminders/planning/planning-run.ts'
import { createId } from '../../shared/contract/id.ts'
import { createLogger } from '../../shared/process/log.ts'
import { plainDebtor, plainInvoice } from '../fixtures/accounts/plain-records.ts'

const DEBTORS = Number(process.argv[2] ?? 10_000)
const INVOICES_EACH = 10
const TIMEZONE = 'Europe/Amsterdam'
/** A Tuesday morning in this time zone. */
const NOW = new Date('2026-11-24T10:00:00.000Z')

const log = createLogger('benchmark', 'error')
const directory = await mkdtemp(join(tmpdir(), 'reminders-'))
const url = process.env['DATABASE_URL'] ?? `sqlite:${directory}/receivables.db`
const database = await openDatabase({ url, log, openedBy: 'backend' })
try {
  await measure(database)
} finally {
  await database.close()
  await rm(directory, { recursive: true })
}

async function measure(database: OpenDatabase): Promise<void> {
  const { owner, debtor, invoice } = await seedOne(database)
  await seedMore(database, debtor, invoice)
  print(`${DEBTORS} debtors with ${DEBTORS * INVOICES_EACH} open invoices, half of them due`)
  const before = process.memoryUsage().rss
  let peak = before
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss)
  }, 20)
  const waits: number[] = []
  const paying = pay(database, owner.accountId, invoice.id, waits)
  const first = await timed(() => runPlanning({ database, clock: () => NOW, log }))
  paying.stop()
  await paying.ended
  clearInterval(watch)
  print(
    `planned: ${first.value.messages} messages to ${first.value.debtors} debtors in ${first.ms} ms`,
  )
  print(`CPU time of the process, all threads: ${first.cpuMs} ms`)
  print(`memory: ${megabytes(before)} MB before, ${megabytes(peak)} MB at most`)
  const idle = await timed(() => runPlanning({ database, clock: () => NOW, log }))
  print(`a run with nothing to do: ${idle.ms} ms, ${idle.value.debtors} debtors examined`)
  const sorted = waits.toSorted((a, b) => a - b)
  const at = (share: number) => Math.round(sorted[Math.floor(sorted.length * share)] ?? 0)
  print(
    `payments during planning: ${waits.length}, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(0.9999)} ms`,
  )
}

/** Records one payment after another, 10 ms apart. */
function pay(database: OpenDatabase, accountId: string, invoiceId: string, waits: number[]) {
  let isStopped = false
  const run = async () => {
    while (!isStopped) {
      const begin = performance.now()
      await database.transaction((tx) =>
        recordPayment(
          tx,
          {
            accountId,
            timezone: TIMEZONE,
            source: 'api',
            recordedBy: { type: 'operator', id: null, label: 'benchmark' },
            idempotencyKey: null,
            fingerprint: null,
            now: NOW,
          },
          {
            target: { kind: 'invoice', invoiceId },
            amount: 1,
            currency: 'EUR',
            allowOverpayment: false,
            keepsRestOnAccount: false,
            receivedOn: null,
            method: 'bank_transfer',
            reference: null,
            externalId: null,
            metadata: {},
          },
        ),
      )
      waits.push(performance.now() - begin)
      await delay(10)
    }
  }
  return {
    ended: run(),
    stop() {
      isStopped = true
    },
  }
}

async function timed<T>(work: () => Promise<T>) {
  const begin = performance.now()
  const cpu = process.cpuUsage()
  const value = await work()
  const { user, system } = process.cpuUsage(cpu)
  return {
    value,
    ms: Math.round(performance.now() - begin),
    cpuMs: Math.round((user + system) / 1000),
  }
}

/**
 * Creates one debtor with an invoice through the domain functions. All other debtors and invoices are copies of them.
 */
function seedOne(database: OpenDatabase) {
  const actionContext = { actor: OPERATOR, now: NOW }
  return database.transaction(async (tx) => {
    const account = await createAccount(
      tx,
      { name: 'Benchmark', timezone: TIMEZONE },
      actionContext,
    )
    const owner = {
      accountId: account.id,
      isDemo: false,
      timezone: TIMEZONE,
      paymentTermsDays: 30,
    }
    const debtor = await createDebtor(tx, owner, plainDebtor(), NOW)
    const due = { amount: 1_000_000, dueDate: '2026-12-24' }
    const input = plainInvoice({ debtor: { id: debtor.id }, ...due })
    const invoice = await createInvoice(tx, owner, input, NOW)
    return { owner, debtor, invoice }
  })
}

async function seedMore(
  database: OpenDatabase,
  debtor: DebtorRow,
  invoice: InvoiceRow,
): Promise<void> {
  for (let made = 0; made < DEBTORS; made += 50) {
    const debtors = Array.from({ length: 50 }, () => ({
      ...debtor,
      id: createId('deb'),
      plan_at: NOW.toISOString(),
    }))
    const invoices = debtors.flatMap(({ id }) =>
      Array.from({ length: INVOICES_EACH }, (_, n) => {
        const own = createId('inv')
        const day = String(1 + ((n * 7) % 19)).padStart(2, '0')
        const due_date = `2026-${n % 2 === 0 ? '11' : '12'}-${day}`
        return { ...invoice, id: own, number: own, debtor_id: id, due_date }
      }),
    )
    await database.transaction(async (tx) => {
      await tx.insertInto('debtors').values(debtors).execute()
      await tx.insertInto('invoices').values(invoices).execute()
    })
  }
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1e6)
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
