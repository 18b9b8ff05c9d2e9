/**
 * `node test/load/overload.ts`: sends the whole product three times its maximum rate of calls. Calls with 1,000 keys
 * arrive at a fixed rate, whatever the responses; of 20 calls, 14 are reads by id, 4 are lists of 50, and 2 are
 * payments. Gateway and backend have one core; load generator, Redis and PostgreSQL share the other. With
 * `--backend-share`, gateway and backend do not compete for a core. For comparison, HAProxy takes the gateway's place,
 * and is measured at the same rate and at three times its own maximum rate.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PRINCIPAL_HEADER, PRINCIPAL_LIFETIME_MS } from '../../shared/contract/principal.ts'
import { readOptions } from '../fixtures/runner/options.ts'
import { startPostgres, TEMPLATE } from '../fixtures/servers/postgres.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { type System, startSystem } from '../fixtures/service/system.ts'
import { analyzeTables } from './analyze-tables.ts'
import { limitCpu } from './cpu-limit.ts'
import { type Engine, enginesOf } from './engines.ts'
import { startHaproxy } from './haproxy.ts'
import {
  Cleanup,
  describeMachine,
  LOAD_CORE,
  moveToLoadCore,
  pin,
  requirePackages,
  residentMegabytes,
  SUBJECT_CORE,
} from './machine.ts'
import { createMix, type Mix, mixedCall } from './overload/mix.ts'
import { callAtPace, type Finished, type Lateness, type Request } from './paced.ts'
import { quantile, rounded, tableOf } from './report.ts'
import { untilResponding } from './responding.ts'

/** The number of concurrent callers with which the maximum rate is measured. */
const CALLERS = 64
/** The number of connections during overload. */
const CONNECTIONS = 3_000
/** The source addresses of the connections. The gateway treats each address as a separate client. */
const ADDRESSES = Array.from({ length: 100 }, (_, n) => `127.0.1.${n + 1}`)
const WARM_UP_SECONDS = 10
const FULL_SECONDS = 15
const CALM_SECONDS = 15
const FAIRNESS_SECONDS = 20
/** The share of the maximum rate that the product serves easily. */
const CALM_SHARE = 0.2
/** After the overload, a call is slow if it takes longer than this many times the p99 of calm calls. */
const NORMAL_TIMES = 2
const SLICE_MS = 250
const MEMORY_INTERVAL_MS = 2_000

const COLUMNS = [
  'load',
  'served/s',
  'p50 ms',
  'p99 ms',
  'shed/s',
  'p99 of shed ms',
  'slowest ms',
  'other failures',
  'generator ms',
]

const HELP = `Sends the whole product three times its maximum rate of calls.

Usage: npm run bench -- overload [options]

  --seconds N        duration of the overload (120)
  --times N          rate of the overload, as a multiple of the maximum rate (3)
  --engine NAME      uses only sqlite or only postgres
  --part NAME        runs only the part overload or fairness
  --backend-share N  gives the gateway another core than the backend, as if they ran on two machines, and limits the
                     backend to a share of its core (such as 0.25), so that the load generator, which shares the
                     gateway's core, can send enough calls; needs root
`

const options = readOptions(HELP, {
  seconds: { type: 'string', default: '120' },
  times: { type: 'string', default: '3' },
  engine: { type: 'string' },
  part: { type: 'string' },
  'backend-share': { type: 'string' },
})
const engines = enginesOf(options.engine)
const overloadSeconds = Number(options.seconds)
const rateMultiple = Number(options.times)
const backendShare = options['backend-share']
const gatewayCore = backendShare === undefined ? SUBJECT_CORE : LOAD_CORE

type Caller = 'others' | 'greedy'
type Call = Finished<Caller>

interface Outcome {
  readonly calls: readonly Call[]
  /** The delay that the load generator adds to the durations. */
  readonly lateness: Lateness
}

requirePackages({ haproxy: '/usr/sbin/haproxy' })
moveToLoadCore()
const cleanup = new Cleanup()
try {
  print(`${describeMachine()}\n`)
  for (const engine of engines) await measure(engine)
} finally {
  await cleanup.end()
}
process.exit(0)

async function measure(engine: Engine): Promise<void> {
  const own = new Cleanup()
  try {
    const system = await start(own, engine)
    const mix = await createMix(system)
    const pids = [system.backend.pid, ...system.gateways.map(({ pid }) => pid)]
    pin(system.backend.pid, SUBJECT_CORE)
    for (const { pid } of system.gateways) pin(pid, gatewayCore)
    if (backendShare !== undefined) limitCpu(own, system.backend.pid, Number(backendShare))
    const runAt =
      (url: string): Run =>
      (rate, seconds, connections, greedyRate = 0) =>
        record(url, mix, { rate, greedyRate, seconds, connections })
    const run = runAt(system.url)
    await run(Number.POSITIVE_INFINITY, WARM_UP_SECONDS, CALLERS)
    const { DATABASE_URL: databaseUrl } = system.env
    if (databaseUrl?.startsWith('postgres')) await analyzeTables(databaseUrl)

    const full = await run(Number.POSITIVE_INFINITY, FULL_SECONDS, CALLERS)
    const maximum = goodput(full, FULL_SECONDS)
    if (options.part !== 'fairness') {
      await measureOverload(engine, maximum, full, pids, run)
      const peer = await startPeer(own, system, mix)
      await measurePeer(engine, rateMultiple * maximum, runAt(peer))
    }
    if (options.part !== 'overload') await measureFairness(engine, maximum, run)
  } finally {
    await own.end()
  }
}

type Run = (rate: number, seconds: number, connections: number, greedy?: number) => Promise<Outcome>

async function measureOverload(
  engine: Engine,
  maximum: number,
  full: Outcome,
  pids: readonly number[],
  run: Run,
): Promise<void> {
  const calm = await run(CALM_SHARE * maximum, CALM_SECONDS, CALLERS)
  const memory = watchMemory(pids)
  const overloaded = await run(rateMultiple * maximum, overloadSeconds, CONNECTIONS)
  const after = await run(CALM_SHARE * maximum, CALM_SECONDS, CALLERS)
  const megabytes = memory()
  const title = (name: string) => `${engine}, ${name}`
  const rows = [
    row(title('64 callers at once'), full, FULL_SECONDS),
    row(title('calm'), calm, CALM_SECONDS),
    row(title(`${rateMultiple} times the maximum`), overloaded, overloadSeconds),
    row(title('calm again'), after, CALM_SECONDS),
  ]
  print(`${tableOf(COLUMNS, rows)}\n`)
  print(
    `back to normal (within ${NORMAL_TIMES} × the p99 of calm calls) ${rounded(secondsToNormal(after, calm), 1)} s after the overload; resident MB of gateway and backend ${megabytes}\n`,
  )
}

/** Measures HAProxy in place of the gateway: at the rate that the gateway got, and at a multiple of its own maximum. */
async function measurePeer(engine: Engine, gatewayRate: number, run: Run): Promise<void> {
  await run(Number.POSITIVE_INFINITY, WARM_UP_SECONDS, CALLERS)
  const full = await run(Number.POSITIVE_INFINITY, FULL_SECONDS, CALLERS)
  const maximum = goodput(full, FULL_SECONDS)
  const overload = (rate: number) => run(rate, overloadSeconds, CONNECTIONS)
  const sameRate = await overload(gatewayRate)
  const overloaded = await overload(rateMultiple * maximum)
  const title = (name: string) => `HAProxy and ${engine}, ${name}`
  const rows = [
    row(title('64 callers at once'), full, FULL_SECONDS),
    row(title(`${rounded(gatewayRate)}/s, like the gateway`), sameRate, overloadSeconds),
    row(title(`${rateMultiple} times the maximum`), overloaded, overloadSeconds),
  ]
  print(`${tableOf(COLUMNS, rows)}\n`)
}

/**
 * Starts HAProxy in front of the backend. Like the gateway, it sends up to 64 calls to the backend at a time, and sheds
 * a call while 16 others wait. It looks up and counts no keys: to the backend, all calls are made with one key, whose
 * principal is replaced before it expires.
 */
async function startPeer(own: Cleanup, { backend }: System, { principal }: Mix): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'overload-haproxy-'))
  own.teardown(() => rmSync(directory, { recursive: true }))
  const principals = join(directory, 'principals.map')
  const control = join(directory, 'haproxy.sock')
  writeFileSync(principals, `key ${principal()}\n`)
  const sections = (port: number) => `global
  stats socket ${control} level admin
frontend gateway
  bind 127.0.0.1:${port}
  http-request return status 503 hdr Retry-After 1 content-type text/plain string "overload" if { queue(upstream) ge 16 }
  http-request del-header Authorization
  http-request set-header ${PRINCIPAL_HEADER} %[str(key),map(${principals})]
  default_backend upstream
backend upstream
  server one 127.0.0.1:${backend.port} maxconn 64
`
  const { port } = await startHaproxy(own, { directory, sections, core: gatewayCore })
  const url = `http://127.0.0.1:${port}`
  await untilResponding(url)
  const renew = () => connect(control).resume().end(`set map ${principals} key ${principal()}\n`)
  const timer = setInterval(renew, PRINCIPAL_LIFETIME_MS / 2)
  own.teardown(() => clearInterval(timer))
  return url
}

/**
 * Measures how one key affects the others if it sends as many calls as all others, or twice the maximum rate, and if it
 * sends half of the calls of an overload.
 */
async function measureFairness(engine: Engine, maximum: number, run: Run): Promise<void> {
  const share = 0.4 * maximum
  const half = (rateMultiple / 2) * maximum
  const loads = [
    [share, 0],
    [share, share],
    [share, 2 * maximum],
    [half, 0],
    [half, half],
  ] as const
  const rows: string[][] = []
  for (const [rate, greedy] of loads) {
    const { calls, lateness } = await run(rate, FAIRNESS_SECONDS, CONNECTIONS / 2, greedy)
    const others = { calls: calls.filter(({ tag }) => tag === 'others'), lateness }
    const title = `${engine}, ${rounded(rate)}/s beside one key at ${rounded(greedy)}/s`
    rows.push(row(title, others, FAIRNESS_SECONDS))
    const own = { calls: calls.filter(({ tag }) => tag === 'greedy'), lateness }
    if (greedy > 0) rows.push(row('that key', own, FAIRNESS_SECONDS))
  }
  print(`calls of all other keys\n\n${tableOf(COLUMNS, rows)}\n`)
}

async function start(own: Cleanup, engine: Engine): Promise<System> {
  const redis = await startRedis(own)
  const directory = mkdtempSync(join(tmpdir(), 'overload-'))
  own.teardown(() => rmSync(directory, { recursive: true }))
  const context = { testdir: () => directory, teardown: own.teardown.bind(own) }
  let databaseUrl: string | undefined
  if (engine === 'PostgreSQL') {
    const postgres = await startPostgres({ durable: true })
    own.teardown(() => postgres.remove())
    databaseUrl = postgres.url(TEMPLATE)
  }
  return startSystem(context, {
    redisUrl: redis.url,
    backends: 1,
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
    gatewayEnv: { LOG_LEVEL: 'error', ACCESS_LOG: 'off' },
    backendEnv: { LOG_LEVEL: 'error' },
  })
}

interface Load {
  readonly rate: number
  /** The rate of calls with one additional key; 0 for none. */
  readonly greedyRate: number
  readonly seconds: number
  readonly connections: number
}

async function record(url: string, mix: Mix, load: Load): Promise<Outcome> {
  const { rate, greedyRate, seconds, connections } = load
  const calls: Call[] = []
  const paced = (tag: Caller, next: () => Buffer) => ({
    seconds,
    connections,
    addresses: ADDRESSES,
    next: (): Request<Caller> => ({ bytes: next(), tag }),
    onFinished: (one: Call) => void calls.push(one),
  })
  const [greedy = '', ...keys] = mix.keys
  const others = { ...mix, keys }
  const [lateness] = await Promise.all([
    callAtPace(url, { ...paced('others', () => mixedCall(others)), rate }),
    greedyRate > 0 &&
      callAtPace(url, {
        ...paced('greedy', () => mixedCall({ ...mix, keys: [greedy] })),
        rate: greedyRate,
      }),
  ])
  return { calls, lateness }
}

function isServed({ status }: Call): boolean {
  return status >= 200 && status < 300
}

function goodput({ calls }: Outcome, seconds: number): number {
  return calls.filter(isServed).length / seconds
}

function row(title: string, { calls, lateness }: Outcome, seconds: number): string[] {
  const served = calls.filter(isServed).map(({ ms }) => ms)
  const shed = calls.filter(({ status }) => status === 503).map(({ ms }) => ms)
  const otherStatuses = new Map<number, number>()
  for (const one of calls) {
    if (!isServed(one) && one.status !== 503) {
      otherStatuses.set(one.status, (otherStatuses.get(one.status) ?? 0) + 1)
    }
  }
  return [
    title,
    rounded(served.length / seconds),
    rounded(quantile(served, 0.5), 1),
    rounded(quantile(served, 0.99), 1),
    rounded(shed.length / seconds),
    rounded(quantile(shed, 0.99), 1),
    rounded(Math.max(0, ...[quantile(served, 1), quantile(shed, 1)].filter(Number.isFinite)), 1),
    [...otherStatuses].map(([status, count]) => `${count} × ${status}`).join(', '),
    rounded(lateness.sentMs + lateness.readMs, 1),
  ]
}

/**
 * Returns the seconds until latency is normal again. A second is normal if in each of its slices, at most one call in
 * twenty failed or was slow.
 */
function secondsToNormal({ calls: after }: Outcome, { calls: calm }: Outcome): number {
  const msMax =
    NORMAL_TIMES *
    quantile(
      calm.map(({ ms }) => ms),
      0.99,
    )
  const [first] = after.toSorted((a, b) => a.dueAt - b.dueAt)
  const slices = Map.groupBy(after, ({ dueAt }) =>
    Math.floor((dueAt - (first?.dueAt ?? 0)) / SLICE_MS),
  )
  const isNormal = (slice: number) => {
    const calls = slices.get(slice) ?? []
    const bad = calls.filter((one) => !isServed(one) || one.ms > msMax)
    return bad.length <= calls.length / 20
  }
  const second = Array.from({ length: 1000 / SLICE_MS }, (_, slice) => slice)
  let from = 0
  while (slices.has(from) && !second.every((slice) => isNormal(from + slice))) from++
  return (from * SLICE_MS) / 1000
}

/** Returns a function that describes the memory of the processes since this call. */
function watchMemory(pids: readonly number[]): () => string {
  const samples: number[][] = []
  const sample = () => samples.push(pids.map(residentMegabytes))
  sample()
  const watching = setInterval(sample, MEMORY_INTERVAL_MS)
  return () => {
    clearInterval(watching)
    sample()
    return pids
      .map((_, index) => {
        const megabytes = samples.map((one) => one[index] ?? 0)
        const at = (share: number) =>
          rounded(megabytes[Math.floor(share * (megabytes.length - 1))] ?? 0)
        return `${at(0)} before, ${at(0.3)} and ${at(0.85)} during, ${rounded(Math.max(...megabytes))} at most`
      })
      .join('; ')
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
