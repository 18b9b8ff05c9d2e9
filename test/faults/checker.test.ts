import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { setApplyCredit } from '../../backend/accounts/apply-credit.ts'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { openDatabase } from '../../backend/database/open.ts'
import { matches } from '../fixtures/matches.ts'
import { checkPayments, type Invariant } from '../fixtures/payments/checker.ts'
import { failpointKey, failpointsEnv } from '../fixtures/payments/failpoints.ts'
import { readHistory } from '../fixtures/payments/history.ts'
import { type Ledger, openLedger } from '../fixtures/payments/ledger.ts'
import { MUTANTS, mutantEnv } from '../fixtures/payments/mutants.ts'
import { call } from '../fixtures/service/call.ts'
import { SILENT } from '../fixtures/service/database.ts'

/** The invariant that each bug breaks. A bug may break other invariants too. */
const BREAKS: Readonly<Record<string, Invariant>> = {
  loses_keys: 'I2',
  responds_without_commit: 'I1',
  loses_the_payment: 'I1',
  records_another_amount: 'I1',
  stores_other_bytes: 'I3',
  presents_replays_as_new: 'I3',
  does_not_settle: 'I4',
  allocates_twice: 'I5',
  records_no_event: 'I6',
  ignores_the_body: 'I8',
  loses_the_debtor: 'I9',
  keeps_rejected_writes: 'I4',
}

// Many processes are started, which takes minutes on a busy machine.
t.setTimeout(900_000)
t.jobs = 2

t.test('an expected invariant is listed for every bug', async (t) => {
  t.strictSame(Object.keys(BREAKS).toSorted(), MUTANTS.toSorted())
})

t.test('the checker finds no violation in the backend without bugs', async (t) => {
  const ledger = await openLedger(t)
  t.equal(await makeCalls(ledger), 409)
  const { violations, figures } = await ledger.check()
  t.strictSame(violations, [])
  matches(t, figures, { intents: 6, acknowledged: 4, payments: 4, duplicates: 0 })
  const kept = readHistory(ledger.historyPath)
  t.strictSame(await checkPayments(ledger.databasePath, kept), { violations, figures })
})

for (const name of MUTANTS) {
  t.test(`the checker detects a backend that ${name.replaceAll('_', ' ')}`, async (t) => {
    const ledger = await openLedger(t, { backendEnv: mutantEnv(name) })
    await makeCalls(ledger)
    const { violations } = await ledger.check()
    const broken = [...new Set(violations.map(({ invariant }) => invariant))]
    const expected = BREAKS[name] ?? 'I1'
    t.ok(broken.includes(expected), `${expected} is among the broken invariants: ${broken}`)
  })
}

t.test('the checker detects a caller that uses a new key for a retry', async (t: Test) => {
  const directory = mkdtempSync(join(tmpdir(), 'failpoints-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  const ledger = await openLedger(t, { backendEnv: failpointsEnv(directory) })
  const payer = ledger.payer('careless')
  const key = failpointKey('throw', 'after_commit', '1')
  const intent = { key, reference: 'rent', invoiceId: await ledger.invoice(10_000), amount: 1_000 }
  t.equal((await payer.send(intent))?.status, 503)
  t.equal((await payer.send({ ...intent, key: 'another' }))?.status, 201)
  const { violations, figures } = await ledger.check()
  t.equal(figures.duplicates, 1)
  t.ok(violations.some(({ invariant }) => invariant === 'I2'))
})

/**
 * Makes concurrent calls, repeats, calls with another body, and rejected calls. Each bug affects at least one of these
 * calls. Returns the status of the last call.
 */
async function makeCalls(ledger: Ledger): Promise<number> {
  const invoiceId = await ledger.invoice(10_000)
  const payer = ledger.payer('one')
  const other = ledger.payer('other')
  const intent = (n: number, amount: number) => {
    return { key: `key-${n}`, reference: `reference-${n}`, invoiceId, amount }
  }
  await Promise.all([payer.send(intent(1, 1_000)), other.send(intent(1, 1_000))])
  await payer.send(intent(2, 2_000))
  await payer.send(intent(3, 1_000_000))
  await payer.send(intent(4, 3_000))
  await other.send(intent(2, 2_000))
  await other.send(intent(1, 1_001))
  // The second of these calls is rejected, because its external id exists already.
  await payer.send({ ...intent(5, 500), externalId: 'bank-1' })
  await payer.send({ ...intent(6, 500), externalId: 'bank-1' })
  return await makeCallThatIsRejectedAfterWrites(ledger, invoiceId, 'bank-1')
}

/**
 * Pays the debtor's oldest invoice, with an external id that exists already. The backend updates the invoice before it
 * checks the external id.
 */
async function makeCallThatIsRejectedAfterWrites(
  { system, databasePath, accountId, apiKey: key }: Ledger,
  invoiceId: string,
  external_id: string,
): Promise<number> {
  const database = await openDatabase({
    url: `sqlite:${databasePath}`,
    log: SILENT,
    openedBy: 'operator',
  })
  const actionContext = { actor: OPERATOR, now: new Date() }
  await database.transaction((tx) => setApplyCredit(tx, accountId, 'oldest_first', actionContext))
  await database.close()
  const { json: invoice } = await call(`${system.url}/api/v1/invoices/${invoiceId}`, { key })
  const { status } = await call(`${system.url}/api/v1/payments`, {
    key,
    headers: { 'idempotency-key': 'key-7' },
    body: { debtor_id: invoice.debtor_id, amount: 500, currency: 'EUR', external_id },
  })
  return status
}
