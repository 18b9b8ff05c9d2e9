import { execFile } from 'node:child_process'
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'
import { type Ledger, openLedger } from '../fixtures/payments/ledger.ts'
import type { Payer } from '../fixtures/payments/payers.ts'
import { type SystemCall, trace } from '../fixtures/payments/strace.ts'
import { call, type Response } from '../fixtures/service/call.ts'
import { runCliProcess } from '../fixtures/service/cli.ts'
import { lockDatabase } from '../fixtures/service/database.ts'
import { until } from '../fixtures/service/until.ts'

/** Ten times the promised 5 s, so that a busy machine does not fail the test. */
const LOCKED_MS_MAX = 50_000

const UNAVAILABLE = {
  status: 503,
  json: { code: 'service_unavailable' },
  headers: { 'retry-after': /^[1-9]\d*$/, 'x-request-id': /^req_/ },
}

// Many processes are started, which takes minutes on a busy machine.
t.setTimeout(900_000)
t.jobs = 2

t.test(
  'while the database is locked, writes get 503 and record nothing, and reads continue',
  async (t) => {
    const { ledger, intent, payer } = await prepareLedger(t)
    const unlock = await lockDatabase(t, ledger.databasePath, 'exclusive')
    const startedAt = performance.now()
    const waiting = Promise.all(['a', 'b', 'c'].map((name) => payer.send(intent(name))))
    const read = await call(`${ledger.system.url}/api/v1/payments`, { key: ledger.apiKey })
    t.equal(read.status, 200)
    for (const response of await waiting) matches(t, response, UNAVAILABLE)
    const respondedMs = Math.round(performance.now() - startedAt)
    t.comment({ respondedMs })
    t.ok(respondedMs >= 4_900 && respondedMs < LOCKED_MS_MAX)
    await untilDegraded(ledger, /^database: SQLITE_BUSY/)
    matches(t, (await ledger.check()).figures, { payments: 0 })
    await unlock()
    for (const name of ['a', 'b', 'c']) matches(t, await payer.pay(intent(name)), { status: 201 })
    await untilRecovered(ledger)
    t.strictSame((await ledger.check()).violations, [])
  },
)

t.test(
  'while the disk is full, writes get 503 and reads continue; then the backend recovers',
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'full-disk-'))
    t.teardown(() => rmSync(directory, { recursive: true }))
    const dataDir = join(directory, 'data')
    mkdirSync(dataDir)
    const mounted = await mountSmallDisk(t, dataDir)
    if (!mounted) return skip(t, 'mounting a tmpfs requires root')
    const { ledger, intent, payer } = await prepareLedger(t, directory)
    const filler = join(dataDir, 'filler')
    fillUp(filler)
    // The WAL may have room for a few more payments.
    const responses: (Response | undefined)[] = []
    while (responses.length < 2_000 && (responses.at(-1)?.status ?? 201) === 201) {
      responses.push(await payer.send(intent(`full-${responses.length}`)))
    }
    matches(t, responses.at(-1), UNAVAILABLE)
    await untilDegraded(ledger, /^database: SQLITE_(?:FULL|IOERR)/)
    const payments = `${ledger.system.url}/api/v1/payments`
    t.equal((await call(payments, { key: ledger.apiKey })).status, 200)
    matches(t, await payer.send(intent('still')), UNAVAILABLE)
    // A backend can start while the disk is full.
    await ledger.system.backend.stop('SIGKILL')
    await ledger.system.startBackend()
    t.equal((await call(payments, { key: ledger.apiKey })).status, 200)
    rmSync(filler)
    matches(t, await payer.pay(intent(`full-${responses.length - 1}`)), { status: 201 })
    await untilRecovered(ledger)
    t.strictSame((await ledger.check()).violations, [])
  },
)

// Regression: the message said that the database was unavailable.
t.test('a backup or an export to a full disk names the disk, and leaves no file', async (t) => {
  const target = mkdtempSync(join(tmpdir(), 'full-backup-'))
  t.teardown(() => rmSync(target, { recursive: true }))
  if (!(await mountSmallDisk(t, target))) return skip(t, 'mounting a tmpfs requires root')
  const { ledger } = await prepareLedger(t)
  fillUp(join(target, 'filler'))
  const to = join(target, 'file')
  const accounts = await runCliProcess(['accounts', 'list', '--json'], ledger.system.env)
  const [account] = JSON.parse(accounts.stdout)
  for (const command of [
    ['database', 'backup'],
    ['accounts', 'export', account.id],
  ]) {
    const outcome = await runCliProcess([...command, '--to', to], ledger.system.env)
    matches(t, outcome, {
      code: 1,
      stderr: new RegExp(`^The disk of ${target} has too little space`, 'm'),
    })
    t.strictSame(readdirSync(target), ['filler'])
  }
})

for (const end of ['continues', 'is killed'] as const) {
  t.test(`if a sync fails and the backend then ${end}, the payment is recorded once`, async (t) => {
    const { ledger, intent, payer } = await prepareLedger(t)
    const { system } = ledger
    await payer.pay(intent('before'))
    const inject = ['trace=fsync,fdatasync', 'inject=fsync,fdatasync:error=EIO']
    const dataDir = system.env['DATA_DIR'] ?? ''
    const tracing = await trace(t, system.backend.pid, dataDir, inject)
    if (tracing === undefined) return skip(t, 'strace is not installed, or may not attach')
    const failed = await payer.send(intent('failed'))
    // The payment may survive a crash. A 503 would say that nothing was recorded.
    matches(t, failed, { status: 504, json: { code: 'gateway_timeout' } })
    await untilDegraded(ledger, /^database: SQLITE_IOERR/)
    if (end === 'is killed') await system.backend.stop('SIGKILL')
    await tracing.end()
    if (end === 'is killed') await system.startBackend()
    const found = await payer.pay(intent('failed'))
    t.equal(found.status, 201)
    t.comment({ replayed: found.headers['idempotent-replayed'] ?? 'false' })
    await untilRecovered(ledger)
    t.strictSame((await ledger.check()).violations, [])
  })
}

t.test('no 201 is sent before its payment has been synced to the disk', async (t) => {
  const { ledger, intent, payer } = await prepareLedger(t)
  const { backend, env } = ledger.system
  const watch = ['trace=read,write,writev,fsync,fdatasync,openat']
  const tracing = await trace(t, backend.pid, env['DATA_DIR'] ?? '', watch)
  if (tracing === undefined) return skip(t, 'strace is not installed, or may not attach')
  const names = Array.from({ length: 20 }, (_, n) => `p${n}`)
  await Promise.all(names.slice(0, 10).map((name) => payer.pay(intent(name))))
  for (const name of names.slice(10)) await payer.pay(intent(name))
  const calls = await tracing.end()
  const { responded, early } = unsyncedResponses(calls)
  t.equal(responded, names.length)
  t.strictSame(early, [])
  t.strictSame(
    calls.filter(({ text }) => /\/etilqs_/.test(text)),
    [],
    'no part of a payment is written to a temporary file',
  )
})

/**
 * Counts responses with 201. `early` has the responses that were sent without a sync of the WAL that began after the
 * request was read.
 */
function unsyncedResponses(calls: readonly SystemCall[]): { responded: number; early: string[] } {
  const requestOn = new Map<string, number>()
  const early: string[] = []
  let responded = 0
  let synced: SystemCall | undefined
  for (const systemCall of calls) {
    const { text, ended } = systemCall
    const socket = /^\w+\(\d+<socket:\[(\d+)\]>/.exec(text)?.[1] ?? ''
    if (/^f(?:data)?sync\(\d+<[^>]*-wal>.*= 0$/.test(text)) synced = systemCall
    if (/^read\(.*"POST \/api\/v1\/payments/.test(text)) requestOn.set(socket, ended)
    if (!/^writev?\(.*"HTTP\/1\.1 201/.test(text)) continue
    responded++
    const requested = requestOn.get(socket) ?? Number.POSITIVE_INFINITY
    if (synced === undefined || synced.began < requested) early.push(text)
  }
  return { responded, early }
}

interface PreparedLedger {
  readonly ledger: Ledger
  readonly payer: Payer
  intent(name: string): Parameters<Payer['send']>[0]
}

async function prepareLedger(t: Test, directory?: string): Promise<PreparedLedger> {
  const context = {
    testdir: () => directory ?? t.testdir(),
    teardown: (work: () => unknown) => t.teardown(work),
  }
  const ledger = await openLedger(context)
  const invoiceId = await ledger.invoice(900_000)
  return {
    ledger,
    payer: ledger.payer('payer'),
    intent: (name) => ({ key: name, reference: name, invoiceId, amount: 100 }),
  }
}

/** Resolves when `/readyz` reports nothing under `degraded`. Rejects if its status is not 200. */
async function untilRecovered({ system }: Ledger): Promise<void> {
  await until(async () => (await readDegraded(system)).length === 0, 'nothing is degraded')
}

/** Resolves when `/readyz` reports this reason under `degraded`. Rejects if its status is not 200. */
async function untilDegraded({ system }: Ledger, reason: RegExp): Promise<void> {
  await until(
    async () => (await readDegraded(system)).some((text) => reason.test(text)),
    `degraded: ${reason}`,
  )
}

async function readDegraded(system: Ledger['system']): Promise<readonly string[]> {
  const readyz = `http://127.0.0.1:${system.backend.operationsPort}/readyz`
  const { status, json } = await call(readyz)
  if (status !== 200) throw new Error(`the backend is not ready: ${status}`)
  return json.degraded
}

function skip(t: Test, reason: string): void {
  t.pass('not tested on this machine', { skip: reason })
}

async function mountSmallDisk(t: Test, path: string): Promise<boolean> {
  const run = promisify(execFile)
  try {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=8m,mode=700', 'tmpfs', path])
  } catch {
    return false
  }
  // The unmount is lazy, because processes may still use the disk until their own teardowns.
  t.teardown(() => run('umount', ['-l', path]))
  return true
}

function fillUp(path: string): void {
  const file = openSync(path, 'w')
  const block = Buffer.alloc(4096)
  try {
    for (;;) writeSync(file, block)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
  } finally {
    closeSync(file)
  }
}
