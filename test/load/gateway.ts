/**
 * `node test/load/gateway.ts`: compares the cost of calls through this gateway, through other gateways that do the same
 * job, and through proxies that only forward calls. The job is to authenticate a key, count the call in a shared Redis,
 * check the scope of the route, and forward the call. The measured program, the subject, has a core of its own; load
 * generator, upstream and Redis share the other. Rounds are interleaved, so that other work on the machine affects all
 * subjects equally. `--help` lists the options, and docs/performance.md explains the figures.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readOptions } from '../fixtures/runner/options.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { runClosedLoop, warmUp } from './gateway/closed-loop.ts'
import { type Cores, watchCores } from './gateway/cores.ts'
import { type Keys, serveKeys } from './gateway/keys.ts'
import { startNginx, upstreamConfig } from './gateway/nginx.ts'
import { runOpenLoop } from './gateway/open-loop.ts'
import {
  isDisturbed,
  latencyTable,
  type Round,
  type Rounds,
  throughputTable,
} from './gateway/results.ts'
import {
  gatewayOf,
  OURS,
  type RunningSubject,
  type Scenario,
  SUBJECTS,
  type Subject,
  startOurs,
} from './gateway/subjects.ts'
import {
  Cleanup,
  describeMachine,
  LOAD_CORE,
  moveToLoadCore,
  requirePackages,
  residentMegabytes,
} from './machine.ts'
import { rounded } from './report.ts'
import { untilResponding } from './responding.ts'

const PATH = '/api/v1/debtors/deb_01KAJZ0M2P4R6T8V0X2Z4B6D8F'
const KEYS = 10_000
const KEYS_FOR_MEMORY = 100_000
/**
 * Calls a second of the first open loop, as many as a busy integration makes. Every subject is idle most of the time.
 */
const CALM_RATE = 2_000
/** Calls a second of the second open loop if this gateway is not measured. Otherwise, half of its maximum is used. */
const RATE_WITHOUT_OURS = 5_000
/** The lowest of several measurements is used, because a shared host is slower at times. */
const MEASUREMENTS_FOR_RATE = 5
/**
 * The time before the measurement of the open loop. The subject must warm up again, because V8 optimizes different code
 * at a fixed rate than under full load.
 */
const OPEN_WARM_UP_SECONDS = 4
/** The maximum number of measurements at a fixed rate. A measurement is repeated if other work disturbs it. */
const OPEN_TRIES_MAX = 4

const HELP = `Compares gateways by calls a second, CPU time of a call, latency and memory.

Usage: npm run bench -- gateway [options]

  --rounds N        how often each subject is measured (5)
  --seconds N       duration of each measurement after the warm-up, in whole seconds (5)
  --rate N          calls a second at the higher fixed rate (half the maximum of this gateway)
  --only NAME,…     measures only these gateways: ${SUBJECTS.map(({ name }) => name).join(', ')}
  --against DIR     also measures the gateway of another checkout, with its dependencies installed
  --json FILE       writes the figures as JSON
`

const options = readOptions(HELP, {
  rounds: { type: 'string', default: '5' },
  seconds: { type: 'string', default: '5' },
  rate: { type: 'string' },
  only: { type: 'string' },
  against: { type: 'string' },
  json: { type: 'string' },
})
const seconds = Number(options.seconds)
const only = options.only?.split(',').map((name) => name.trim())
const unknownName = only?.find((wanted) => !SUBJECTS.some(({ name }) => name === wanted))
if (unknownName !== undefined) {
  process.stderr.write(`--only names no gateway of this benchmark: "${unknownName}".\n\n${HELP}`)
  process.exit(2)
}
const subjects: readonly Subject[] = [
  ...SUBJECTS.filter(({ name }) => only === undefined || only.includes(name)),
  ...(options.against === undefined ? [] : [gatewayOf(resolve(options.against))]),
]

installPeers()
moveToLoadCore()
const cleanup = new Cleanup()
try {
  print(`${describeMachine()}\n${options.rounds} rounds of ${seconds} s, ${KEYS} keys\n`)
  const directory = mkdtempSync(join(tmpdir(), 'gateway-load-'))
  cleanup.teardown(() => rmSync(directory, { recursive: true }))
  const keys = await serveKeys(cleanup, KEYS, directory)
  const scenario = await createScenario(directory, keys)
  const rate = await chooseRate(scenario, keys)
  const rounds = await compare(scenario, keys, rate)
  print(`\nat full load\n\n${throughputTable(subjects, rounds)}\n`)
  for (const [index, callsPerSecond] of [CALM_RATE, rate].entries()) {
    print(`at a fixed rate of ${rounded(callsPerSecond)} calls a second\n`)
    print(`${latencyTable(subjects, rounds, index)}\n`)
  }
  const measuresOurs = subjects.some(({ name }) => name === OURS)
  const megabytes = measuresOurs ? await measureMemory(scenario) : undefined
  if (megabytes !== undefined) {
    print(
      `${OURS}, resident memory after ${rounded(KEYS_FOR_MEMORY)} keys: ${rounded(megabytes)} MB`,
    )
  }
  const json = { machine: describeMachine(), rate, rounds: Object.fromEntries(rounds), megabytes }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(json, null, 2)}\n`)
} finally {
  await cleanup.end()
}
process.exit(0)

/** Installs the packages of the peers in their own folder, because only this benchmark needs them. */
function installPeers(): void {
  requirePackages({
    wrk: '/usr/bin/wrk',
    'redis-server': '/usr/bin/redis-server',
    haproxy: '/usr/sbin/haproxy',
    'nginx-light': '/usr/sbin/nginx',
    'libnginx-mod-http-lua': '/usr/lib/nginx/modules/ngx_http_lua_module.so',
    'lua-nginx-redis': '/usr/share/lua/5.1/nginx/redis.lua',
    'lua-cjson': '/usr/lib/*/lua/5.1/cjson.so',
  })
  const prefix = fileURLToPath(new URL('gateway/peers', import.meta.url))
  if (existsSync(join(prefix, 'node_modules'))) return
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--prefix', prefix], { stdio: 'inherit' })
}

async function createScenario(directory: string, keys: Keys): Promise<Scenario> {
  const redis = await startRedis(cleanup)
  const { lookUpUrl } = keys
  const http = (port: number) => upstreamConfig(port, lookUpUrl)
  const upstream = await startNginx(cleanup, { name: 'upstream', core: LOAD_CORE, directory, http })
  return { directory, upstreamPort: upstream.port, lookUpUrl, redisPort: redis.port }
}

/** Chooses one rate for all subjects, because latencies at different rates cannot be compared. */
async function chooseRate(scenario: Scenario, keys: Keys): Promise<number> {
  if (options.rate !== undefined) return Number(options.rate)
  const ours = subjects.find(({ name }) => name === OURS)
  if (ours === undefined) return RATE_WITHOUT_OURS
  const measured = await withSubject(ours, scenario, keys, async (running) => {
    const rates = [(await measureClosed(running, keys)).callsPerSecond]
    while (rates.length < MEASUREMENTS_FOR_RATE) {
      const load = { keyFile: keys.file, path: PATH, seconds }
      rates.push((await runClosedLoop(running, load)).callsPerSecond)
    }
    return rates
  })
  return Math.round(Math.min(...measured) / 2)
}

/** Measures every subject in each round, in a new process. */
async function compare(scenario: Scenario, keys: Keys, rate: number): Promise<Rounds> {
  const figures = new Map<string, Round[]>(subjects.map(({ name }) => [name, []]))
  const requests = keys.all.map(requestOf)
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const subject of rotatedSubjects(round)) {
      const measure = () =>
        withSubject(subject, scenario, keys, async (running) => {
          const closed = await measureClosed(running, keys)
          const calm = await measureOpen(running, requests, CALM_RATE)
          return { closed, open: [calm, await measureOpen(running, requests, rate)] }
        })
      const one = await measure().catch((error: unknown) => {
        print(`${round + 1}  ${subject.name.padEnd(20)} is measured again: ${error}`)
        return measure()
      })
      figures.get(subject.name)?.push(one)
      print(`${round + 1}  ${subject.name.padEnd(20)} ${lineOf(one)}`)
    }
  }
  return figures
}

async function measureClosed(running: RunningSubject, keys: Keys) {
  const load = { keyFile: keys.file, path: PATH }
  await warmUp(running, load)
  return await runClosedLoop(running, { ...load, seconds })
}

/**
 * Repeats a disturbed measurement, and resolves with the one from which the host took the least time. Without this, the
 * p99 would measure the host, which may stall a core for longer than a call takes.
 */
async function measureOpen(running: RunningSubject, requests: readonly Buffer[], rate: number) {
  const measure = async () => {
    const endWatch = watchCores(running)
    const figures = await runOpenLoop(running.url, requests, {
      rate,
      seconds,
      warmUpSeconds: OPEN_WARM_UP_SECONDS,
    })
    return { ...figures, ...endWatch() }
  }
  let quietest = await measure()
  for (let more = 1; more < OPEN_TRIES_MAX && isDisturbed(quietest); more++) {
    const another = await measure()
    if (another.stolen < quietest.stolen) quietest = another
  }
  return quietest
}

function lineOf({ closed, open }: Round): string {
  const failed = [closed, ...open].reduce((sum, one) => sum + one.failed, 0)
  const latencies = open.map(({ p50Ms, p99Ms, p99OfSecondsMs }) => {
    const ofSeconds = p99OfSecondsMs.map((ms) => rounded(ms, 1)).join(' ')
    return `p50 ${rounded(p50Ms, 2)}  p99 ${rounded(p99Ms, 2)} ms (${ofSeconds})`
  })
  return [
    `${rounded(closed.callsPerSecond).padStart(8)}/s`,
    `${rounded(1e6 / closed.callsPerCpuSecond, 1).padStart(6)} µs`,
    `load core ${rounded(100 * closed.loadCoreBusy)} %`,
    ...latencies,
    ...[closed, ...open].map(disturbance),
    failed > 0 ? `${failed} FAILED` : '',
  ].join('  ')
}

function disturbance(cores: Cores): string {
  if (!isDisturbed(cores)) return ''
  const { disturbed, stolen } = cores
  return `disturbed: ${rounded(100 * disturbed, 1)} % by others, ${rounded(100 * stolen, 1)} % by the host`
}

function requestOf(key: string): Buffer {
  const head = `GET ${PATH} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json`
  return Buffer.from(`${head}\r\nAuthorization: Bearer ${key}\r\n\r\n`)
}

/** Returns the subjects in another order in each round, so that no subject is always the first. */
function rotatedSubjects(round: number): readonly Subject[] {
  const from = round % Math.max(1, subjects.length)
  return [...subjects.slice(from), ...subjects.slice(0, from)]
}

async function withSubject<T>(
  subject: Subject,
  scenario: Scenario,
  keys: Keys,
  work: (running: RunningSubject) => Promise<T>,
): Promise<T> {
  const own = new Cleanup()
  try {
    const running = await subject.start(own, scenario)
    await untilResponding(running.url + PATH, bearer(keys))
    return await work(running)
  } finally {
    await own.end()
  }
}

function bearer({ all: [key = ''] }: Keys): { readonly authorization: string } {
  return { authorization: `Bearer ${key}` }
}

/** Resolves with the resident memory of our gateway, in MB, after each of many keys has made a call. */
async function measureMemory(scenario: Scenario): Promise<number> {
  const own = new Cleanup()
  try {
    const many = await serveKeys(own, KEYS_FOR_MEMORY, scenario.directory)
    const http = (port: number) => upstreamConfig(port, many.lookUpUrl)
    const upstream = await startNginx(own, {
      name: 'upstream-of-many',
      core: LOAD_CORE,
      directory: scenario.directory,
      http,
    })
    const running = await startOurs(own, { ...scenario, upstreamPort: upstream.port })
    await untilResponding(running.url + PATH, bearer(many))
    for (let calls = 0; calls < 1.2 * KEYS_FOR_MEMORY; ) {
      const load = { keyFile: many.file, path: PATH, seconds: 10 }
      calls += 10 * (await runClosedLoop(running, load)).callsPerSecond
    }
    return residentMegabytes(running.pid)
  } finally {
    await own.end()
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
