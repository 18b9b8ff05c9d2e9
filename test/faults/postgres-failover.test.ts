/**
 * The primary fails while clients record payments, and `pg_ctl promote` promotes its synchronous standby.
 * `payThroughFailover` checks the promises about payments.
 */
import t, { type Test } from 'tap'
import { payThroughFailover } from '../fixtures/payments/failover.ts'
import { type PostgresPair, startPostgresPair } from '../fixtures/servers/postgres-pair.ts'

t.setTimeout(900_000)

async function failOver(
  t: Test,
  lose: (pair: PostgresPair) => unknown,
  restore: (pair: PostgresPair) => unknown,
) {
  const pair = await startPostgresPair(t)
  await payThroughFailover(t, {
    url: pair.url,
    formerUrl: pair.directUrl(pair.primary),
    failPrimary: () => lose(pair),
    promoteStandby: () => pair.standby.promote(),
    restartFormerPrimary: () => restore(pair),
  })
}

// Each test starts nine processes, so only the hardest one always runs.
const skip = process.env['FAILOVERS'] === 'all' ? false : 'only FAILOVERS=all runs this test'

t.test(
  'no payment is lost or recorded twice if the primary is killed, and restarted beside the new one',
  { skip },
  (t) =>
    failOver(
      t,
      ({ primary }) => primary.signalAll('SIGKILL'),
      async ({ primary }) => {
        await primary.stop()
        await primary.start()
      },
    ),
)

t.test(
  'no payment is lost or recorded twice if the primary freezes, and continues beside the new one',
  (t) =>
    failOver(
      t,
      ({ primary }) => primary.signalAll('SIGSTOP'),
      ({ primary }) => primary.signalAll('SIGCONT'),
    ),
)

t.test(
  'no payment is lost or recorded twice if the primary is cut off, and connected again',
  { skip },
  (t) =>
    failOver(
      t,
      ({ link }) => link.cut(),
      ({ link }) => link.heal(),
    ),
)
