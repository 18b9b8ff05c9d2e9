/**
 * Gateways, backends, Redis and PostgreSQL run on separate simulated machines, and the links between them fail: all or
 * some packets are delayed or lost, in one direction or in both. Meanwhile, clients record payments, one key is
 * revoked, and another key uses up its limit. The promises are:
 *
 * - No call with the revoked key is accepted.
 * - No payment is lost or recorded twice.
 * - The limit is not exceeded while Redis can be reached. Otherwise it is exceeded only as far as the policy allows.
 * - Every call that can reach a gateway gets a response in time, and the service recovers by itself. The test prints
 *   the times.
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
const FAULTS: readonly Fault[] = [
  'cut',
  'outbound lost',
  'inbound lost',
  'half open',
  'lossy',
  'delayed',
]
const LINKS: readonly Link[] = [
  'client-gateway',
  'gateway-Redis',
  'gateway-backend',
  'backend-PostgreSQL',
]

/** The statuses that a call may get. The retry of a payment gets 409 if the first attempt is still in progress. */
const STATUSES = [200, 201, 401, 409, 429, 502, 503, 504]

t.setTimeout(1_800_000)

async function check(t: Test, service: NetworkedService, trial: Trial, admittedMax: number) {
  const observed = await service.run(trial)
  const { statuses, slowestMs, servedMs, recoveredMs, admitted, noResponse } = observed
  t.equal(observed.revokedAccepted, 0, 'a revoked key is not accepted')
  t.ok(admitted <= admittedMax, `${admitted} of at most ${admittedMax} calls admitted`)
  t.equal(observed.noRetryAfter, 0, 'each 503 has Retry-After')
  const unknown = [...statuses.keys()].filter((status) => !STATUSES.includes(status))
  t.strictSame(unknown, [], 'no response has another status')
  // If the client cannot reach the gateway, no response can arrive in time.
  if (trial.link !== 'client-gateway') t.equal(noResponse, 0, 'every call gets a response')
  const counts = [...statuses].sort().map(([status, count]) => `${count} × ${status}`)
  const times = [slowestMs, servedMs, recoveredMs].map((ms) => `${(ms / 1000).toFixed(2)} s`)
  t.comment(
    `${nameOf(trial)}: ${counts.join(', ')}, ${noResponse} without a response, ` +
      `admitted ${admitted} of ${LIMIT}, slowest ${times[0]}, served after ${times[1]}, recovered after ${times[2]}`,
  )
}

async function checkBooks(t: Test, { ledger }: NetworkedService) {
  const { violations, figures } = await ledger.check()
  t.strictSame(violations, [])
  t.comment(JSON.stringify(figures))
}

const nameOf = ({ link, fault, machines }: Trial) =>
  `${link}: ${fault}, ${machines === 'all' ? 'all machines' : 'a single machine'}`

const skip = networkProblem()
const isLong = process.env['PARTITIONS'] === 'all'
const only = process.env['PARTITION']

t.test(
  'with the policy local, all promises are kept despite network faults',
  { skip },
  async (t) => {
    const service = await startNetworkedService(t)
    const all = LINKS.flatMap((link) =>
      FAULTS.flatMap((fault) =>
        (['all', 'single'] as const).map((machines) => ({
          link,
          fault,
          machines,
          durationMs: 5_000,
        })),
      ),
    )
    const few: readonly Trial[] = [
      { link: 'client-gateway', fault: 'lossy', machines: 'all', durationMs: 2_000 },
      { link: 'gateway-Redis', fault: 'inbound lost', machines: 'single', durationMs: 2_000 },
      { link: 'gateway-backend', fault: 'cut', machines: 'single', durationMs: 2_000 },
      { link: 'backend-PostgreSQL', fault: 'half open', machines: 'single', durationMs: 2_000 },
    ]
    const trials = only ? all.filter((trial) => nameOf(trial).includes(only)) : isLong ? all : few
    for (const trial of trials) {
      const counters = trial.link === 'gateway-Redis' ? GATEWAYS : 1
      await t.test(nameOf(trial), (t) => check(t, service, trial, counters * LIMIT))
    }
    await checkBooks(t, service)
  },
)

const skipDeny = skip || (isLong ? false : 'only PARTITIONS=all runs this test')
t.test(
  'with the policy deny, no more calls than the limit are admitted while Redis cannot be reached',
  { skip: skipDeny },
  async (t) => {
    const service = await startNetworkedService(t, { RATE_LIMIT_ON_REDIS_OUTAGE: 'deny' })
    for (const fault of FAULTS) {
      const trial: Trial = { link: 'gateway-Redis', fault, machines: 'all', durationMs: 5_000 }
      await t.test(nameOf(trial), (t) => check(t, service, trial, LIMIT))
    }
    await checkBooks(t, service)
  },
)
