/**
 * Fails over a cluster of Patroni and etcd: the primary's machine loses power or hangs, or an operator switches over.
 * `payThroughFailover` checks the promises about payments. Patroni replaces a lost primary after 20 s.
 */
import t, { type Test } from 'tap'
import { payThroughFailover } from '../fixtures/payments/failover.ts'
import { type PatroniCluster, patroniProblem, startPatroni } from '../fixtures/servers/patroni.ts'

t.setTimeout(900_000)

const skip =
  process.env['FAILOVERS'] === 'all'
    ? patroniProblem()
    : 'only FAILOVERS=all runs this test, in four minutes'

async function failOver(
  t: Test,
  lose: (cluster: PatroniCluster) => unknown,
  restore: (cluster: PatroniCluster) => unknown,
) {
  const cluster = await startPatroni(t)
  const { url, primary, standby } = cluster
  await payThroughFailover(t, {
    url,
    formerUrl: primary.url,
    failPrimary: () => lose(cluster),
    promoteStandby: () => cluster.untilPrimary(standby),
    restartFormerPrimary: () => restore(cluster),
  })
  await cluster.untilFollowed(standby)
}

t.test(
  'no payment is lost or recorded twice if the primary is killed with its Patroni, and restarted',
  { skip },
  (t) =>
    failOver(
      t,
      ({ primary }) => primary.signalAll('SIGKILL'),
      ({ primary }) => primary.start(),
    ),
)

t.test(
  'no payment is lost or recorded twice if the primary freezes with its Patroni, and continues',
  { skip },
  (t) =>
    failOver(
      t,
      ({ primary }) => primary.signalAll('SIGSTOP'),
      ({ primary }) => primary.signalAll('SIGCONT'),
    ),
)

t.test('no payment is lost or recorded twice in a planned switchover', { skip }, (t) =>
  failOver(
    t,
    (cluster) => cluster.switchOver(),
    () => {},
  ),
)
