/**
 * Networks that fail: gateways, backends, Redis and PostgreSQL have a network of their own each, and packets between
 * them are lost, all or some, in one direction or both, or come late. Promised, under payers, revocations, and a key that
 * uses up its limit: a call with a revoked key is never accepted; no payment is lost or recorded twice; the limit is
 * exact where Redis is reached, and never exceeded by more than the mode allows; every call gets a response in time; and
 * all of it is whole again by itself. The times are printed.
 */
import t, { type Test } from 'tap'
import { type Fault, networkProblem } from '../fixtures/network/network.ts'
import { LIMIT, type Link, openSite, type Site, type Trial } from '../fixtures/network/ordeal.ts'

const GATEWAYS = 2
const FAULTS: readonly Fault[] = ['cut', 'forth', 'back', 'half open', 'lossy', 'delayed']
const LINKS: readonly Link[] = [
  'client-gateway',
  'gateway-Redis',
  'gateway-backend',
  'backend-PostgreSQL',
]

/** The kinds of responses that a call may get; a payer may also meet its own payment that is under way. */
const STATUSES = [200, 201, 401, 409, 429, 502, 503, 504]

t.setTimeout(1_800_000)

async function check(t: Test, site: Site, trial: Trial, admittedMax: number) {
  const seen = await site.undergo(trial)
  const { statuses, slowestMs, servedMs, wholeMs } = seen
  t.equal(seen.revokedAccepted, 0, 'a revoked key is not accepted')
  t.ok(seen.admitted <= admittedMax, `${seen.admitted} of ${admittedMax} admitted`)
  t.equal(seen.bare, 0, 'each 503 says when to try again')
  const unknown = [...statuses.keys()].filter((status) => !STATUSES.includes(status))
  t.strictSame(unknown, [], 'no response of another kind')
  // Where the client cannot reach the gateway, only the client can give up.
  if (trial.link !== 'client-gateway') t.equal(seen.unanswered, 0, 'every call is answered')
  const counts = [...statuses].sort().map(([status, count]) => `${count} × ${status}`)
  const times = [slowestMs, servedMs, wholeMs].map((ms) => `${(ms / 1000).toFixed(2)} s`)
  t.comment(
    `${trial.link}, ${trial.fault}, ${trial.at}: ${counts.join(', ')}, unanswered ${seen.unanswered}, ` +
      `admitted ${seen.admitted} of ${LIMIT}, slowest ${times[0]}, served after ${times[1]}, whole after ${times[2]}`,
  )
}

async function checkBooks(t: Test, { ledger }: Site) {
  const { violations, figures } = await ledger.check()
  t.strictSame(violations, [])
  t.comment(JSON.stringify(figures))
}

const nameOf = ({ link, fault, at }: Trial) => `${link}: ${fault}, ${at}`

const skip = networkProblem()
const isLong = process.env['PARTITIONS'] === 'all'
const only = process.env['PARTITION']

t.test('counted in each gateway while Redis cannot be reached', { skip }, async (t) => {
  const site = await openSite(t)
  const all = LINKS.flatMap((link) =>
    FAULTS.flatMap((fault) =>
      (['all', 'one'] as const).map((at) => ({ link, fault, at, lastsMs: 5_000 })),
    ),
  )
  const few: readonly Trial[] = [
    { link: 'client-gateway', fault: 'lossy', at: 'all', lastsMs: 2_000 },
    { link: 'gateway-Redis', fault: 'back', at: 'one', lastsMs: 2_000 },
    { link: 'gateway-backend', fault: 'cut', at: 'one', lastsMs: 2_000 },
    { link: 'backend-PostgreSQL', fault: 'half open', at: 'one', lastsMs: 2_000 },
  ]
  const trials = only ? all.filter((trial) => nameOf(trial).includes(only)) : isLong ? all : few
  for (const trial of trials) {
    const apart = trial.link === 'gateway-Redis' ? GATEWAYS : 1
    await t.test(nameOf(trial), (t) => check(t, site, trial, apart * LIMIT))
  }
  await checkBooks(t, site)
})

const skipDeny = skip || (isLong ? false : 'PARTITIONS=all runs it')
t.test('503 while Redis cannot be reached', { skip: skipDeny }, async (t) => {
  const site = await openSite(t, { RATE_LIMIT_ON_REDIS_OUTAGE: 'deny' })
  for (const fault of FAULTS) {
    const trial: Trial = { link: 'gateway-Redis', fault, at: 'all', lastsMs: 5_000 }
    await t.test(nameOf(trial), (t) => check(t, site, trial, LIMIT))
  }
  await checkBooks(t, site)
})
