/**
 * The primary is lost while payers pay, and `pg_ctl promote` promotes its synchronous standby.
 * `payThroughFailover` checks what is promised.
 */
import t, { type Test } from 'tap'
import { payThroughFailover } from '../fixtures/payments/failover.ts'
import { type PostgresPair, startPostgresPair } from '../fixtures/servers/postgres-pair.ts'

t.setTimeout(300_000)

async function failOver(
  t: Test,
  lose: (pair: PostgresPair) => unknown,
  restore: (pair: PostgresPair) => unknown,
) {
  const pair = await startPostgresPair(t)
  await payThroughFailover(t, {
    url: pair.url,
    formerUrl: pair.at(pair.primary),
    lose: () => lose(pair),
    takeOver: () => pair.standby.promote(),
    restore: () => restore(pair),
  })
}

// Each test starts nine processes, so only the hardest one always runs.
const skip = process.env['FAILOVERS'] === 'all' ? false : 'FAILOVERS=all runs it'

t.test('the primary is killed, and started again beside the new one', { skip }, (t) =>
  failOver(
    t,
    ({ primary }) => primary.signalAll('SIGKILL'),
    async ({ primary }) => {
      await primary.stop()
      await primary.start()
    },
  ),
)

t.test('the primary is frozen, and continues beside the new one', (t) =>
  failOver(
    t,
    ({ primary }) => primary.signalAll('SIGSTOP'),
    ({ primary }) => primary.signalAll('SIGCONT'),
  ),
)

t.test('the primary is cut off, and connected again', { skip }, (t) =>
  failOver(
    t,
    ({ link }) => link.cut(),
    ({ link }) => link.heal(),
  ),
)
