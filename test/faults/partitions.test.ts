/**
 * Networks fail: gateways, backends, Redis and PostgreSQL each have a network of their own, and packets between them
 * are delayed or lost, all or some, in one direction or both. Meanwhile payers pay, a key is revoked, and another key
 * uses up its limit. A call with the revoked key is never accepted; no payment is lost or recorded twice; the limit is
 * exact while Redis can be reached, and otherwise exceeded only as far as the policy allows; every call gets a response
 * in time; and the service recovers by itself. The test prints the times.
 */
import t, { type Test } from 'tap'
import { type Fault, networkProblem } from '../fixtures/network/network.ts'
import {
  LIMIT,
  type Link,
  type NetworkedService,
  startNetworkedService,
  type Trial,
} from '../fixtures/network/networked-service.ts'

const GATEWAYS = 2
const FAULTS: readonly Fault[] = ['cut', 'lost there', 'lost back', 'half open', 'lossy', 'delayed']
const LINKS: readonly Link[] = [
  'client-gateway',
  'gateway-Redis',
  'gateway-backend',
  'backend-PostgreSQL',
]

/** The statuses that a call may get. A payer gets 409 if its own payment is still in progress. */
const STATUSES = [200, 201, 401, 409, 429, 502, 503, 504]

t.setTimeout(1_800_000)

async function check(t: Test, service: NetworkedService, trial: Trial, admittedMax: number) {
  const observed = await service.run(trial)
  const { statuses, slowestMs, servedMs, recoveredMs, admitted, noResponse } = observed
  t.equal(observed.revokedAccepted, 0, 'a revoked key is not accepted')
  t.ok(admitted <= admittedMax, `${admitted} of at most ${admittedMax} calls admitted`)
  t.equal(observed.noRetryAfter, 0, 'each 503 says when to try again')
  const unknown = [...statuses.keys()].filter((status) => !STATUSES.includes(status))
  t.strictSame(unknown, [], 'no response of another kind')
  // If the client cannot reach the gateway, no response can arrive in time.
  if (trial.link !== 'client-gateway') t.equal(noResponse, 0, 'every call gets a response')
  const counts = [...statuses].sort().map(([status, count]) => `${count} × ${status}`)
  const times = [slowestMs, servedMs, recoveredMs].map((ms) => `${(ms / 1000).toFixed(2)} s`)
  t.comment(
    `${trial.link}, ${trial.fault}, ${trial.at}: ${counts.join(', ')}, ${noResponse} without a response, ` +
      `admitted ${admitted} of ${LIMIT}, slowest ${times[0]}, served after ${times[1]}, recovered after ${times[2]}`,
  )
}

async function checkBooks(t: Test, { ledger }: NetworkedService) {
  const { violations, figures } = await ledger.check()
  t.strictSame(violations, [])
  t.comment(JSON.stringify(figures))
}

const nameOf = ({ link, fault, at }: Trial) => `${link}: ${fault}, ${at}`

const skip = networkProblem()
const isLong = process.env['PARTITIONS'] === 'all'
const only = process.env['PARTITION']

t.test('each gateway counts calls itself while it cannot reach Redis', { skip }, async (t) => {
  const service = await startNetworkedService(t)
  const all = LINKS.flatMap((link) =>
    FAULTS.flatMap((fault) =>
      (['all', 'one'] as const).map((at) => ({ link, fault, at, durationMs: 5_000 })),
    ),
  )
  const few: readonly Trial[] = [
    { link: 'client-gateway', fault: 'lossy', at: 'all', durationMs: 2_000 },
    { link: 'gateway-Redis', fault: 'lost back', at: 'one', durationMs: 2_000 },
    { link: 'gateway-backend', fault: 'cut', at: 'one', durationMs: 2_000 },
    { link: 'backend-PostgreSQL', fault: 'half open', at: 'one', durationMs: 2_000 },
  ]
  const trials = only ? all.filter((trial) => nameOf(trial).includes(only)) : isLong ? all : few
  for (const trial of trials) {
    const counters = trial.link === 'gateway-Redis' ? GATEWAYS : 1
    await t.test(nameOf(trial), (t) => check(t, service, trial, counters * LIMIT))
  }
  await checkBooks(t, service)
})

const skipDeny = skip || (isLong ? false : 'PARTITIONS=all runs it')
t.test(
  'with the policy to deny, calls get 503 while Redis cannot be reached',
  { skip: skipDeny },
  async (t) => {
    const service = await startNetworkedService(t, { RATE_LIMIT_ON_REDIS_OUTAGE: 'deny' })
    for (const fault of FAULTS) {
      const trial: Trial = { link: 'gateway-Redis', fault, at: 'all', durationMs: 5_000 }
      await t.test(nameOf(trial), (t) => check(t, service, trial, LIMIT))
    }
    await checkBooks(t, service)
  },
)
