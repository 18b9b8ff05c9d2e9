/**
 * `node test/load/gateway.ts [--rounds N] [--seconds N] [--only NAME,…] [--json FILE]`: what a
 * gateway's whole job costs (who calls, one count in a Redis that is shared, scope by route,
 * forwarding), side by side with other gateways that do the same job and with proxies that do none
 * of it. The subject has a core of its own; load, upstream and Redis share the other. Rounds are
 * interleaved: what else the machine does meets everybody.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { startRedis } from '../fixtures/redis.ts'
import { until } from '../fixtures/until.ts'
import { askClosedLoop, type ClosedLoop } from './gateway/closed-loop.ts'
import { type Keys, serveKeys } from './gateway/keys.ts'
import { startNginx, upstreamConfig } from './gateway/nginx.ts'
import { askOpenLoop, type OpenLoop } from './gateway/open-loop.ts'
import {
  DIRECT,
  FASTIFY,
  NGINX_LUA,
  OURS,
  type RunningSubject,
  SUBJECTS,
  type Subject,
  startOurs,
  type World,
} from './gateway/subjects.ts'
import { describeMachine, LOAD_CORE, residentMegabytes, Stage, stayOnLoadCore } from './machine.ts'
import { median, rounded, tableOf } from './report.ts'

const PATH = '/api/v1/debtors/deb_01KAJZ0M2P4R6T8V0X2Z4B6D8F'
const KEYS = 10_000
const KEYS_FOR_MEMORY = 100_000
/** A busier core of the load says more of the load than of the subject. */
const LOAD_CORE_BUSY_MAX = 0.85

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    only: { type: 'string' },
    json: { type: 'string' },
  },
})
const rounds = Number(options.rounds)
const seconds = Number(options.seconds)
const only = options.only?.split(',')
const subjects = SUBJECTS.filter(({ name }) => only === undefined || only.includes(name))

stayOnLoadCore()
const stage = new Stage()
try {
  print(`${describeMachine()}\n${rounds} rounds of ${seconds} s, ${KEYS} keys\n`)
  const directory = mkdtempSync(join(tmpdir(), 'gateway-load-'))
  stage.teardown(() => rmSync(directory, { recursive: true }))
  bringPeers()
  const keys = await serveKeys(stage, KEYS, directory)
  const world = await createWorld(directory, keys)
  const closed = await compareThroughput(world, keys)
  print(`\n${throughputTable(closed)}\n`)
  const rate = halfOfOurs(closed)
  const open = await compareLatency(world, keys, rate)
  print(`\nat ${rounded(rate)} calls a second, an open loop\n\n${latencyTable(open)}\n`)
  const megabytes = await measureMemory(world)
  print(`\nresident after ${rounded(KEYS_FOR_MEMORY)} keys: ${rounded(megabytes)} MB`)
  const figures = { closed: Object.fromEntries(closed), open: Object.fromEntries(open) }
  const json = JSON.stringify({ machine: describeMachine(), rate, ...figures, megabytes }, null, 2)
  if (options.json !== undefined) writeFileSync(options.json, `${json}\n`)
} finally {
  await stage.end()
}
process.exit(0)

/** What the peers are built of is installed beside them, so that nobody else needs it. */
function bringPeers(): void {
  const prefix = fileURLToPath(new URL('gateway/peers', import.meta.url))
  if (existsSync(join(prefix, 'node_modules'))) return
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--prefix', prefix], { stdio: 'inherit' })
}

async function createWorld(directory: string, keys: Keys): Promise<World> {
  const redis = await startRedis(stage)
  const { lookUpUrl } = keys
  const http = (port: number) => upstreamConfig(port, lookUpUrl)
  const upstream = await startNginx(stage, { name: 'upstream', core: LOAD_CORE, directory, http })
  return { directory, upstreamPort: upstream.port, lookUpUrl, redisPort: redis.port }
}

/** Starts each subject anew in every round, warms it up, and asks for as much as it gives. */
async function compareThroughput(world: World, keys: Keys): Promise<Map<string, ClosedLoop[]>> {
  const figures = new Map<string, ClosedLoop[]>(subjects.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (const subject of inTurn(round)) {
      const one = await withSubject(subject, world, keys, async (running) => {
        await askClosedLoop(running, { keyFile: keys.file, path: PATH, seconds: 3 })
        return await askClosedLoop(running, { keyFile: keys.file, path: PATH, seconds })
      })
      figures.get(subject.name)?.push(one)
      const { callsPerSecond, callsPerCpuSecond, loadCoreBusy, failed } = one
      print(
        `${round + 1}  ${subject.name.padEnd(20)} ${rounded(callsPerSecond).padStart(8)}/s ${rounded(callsPerCpuSecond).padStart(8)}/CPU s  load core ${rounded(100 * loadCoreBusy)} %${failed > 0 ? `  ${failed} FAILED` : ''}`,
      )
    }
  }
  return figures
}

async function compareLatency(
  world: World,
  keys: Keys,
  rate: number,
): Promise<Map<string, OpenLoop[]>> {
  const figures = new Map<string, OpenLoop[]>(subjects.map(({ name }) => [name, []]))
  const requests = keys.all.map((key) =>
    Buffer.from(
      `GET ${PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nAccept: application/json\r\n\r\n`,
    ),
  )
  const pace = { rate, seconds, warmUpSeconds: 2 }
  for (let round = 0; round < rounds; round++) {
    for (const subject of inTurn(round)) {
      const one = await withSubject(subject, world, keys, async (running) => {
        await askClosedLoop(running, { keyFile: keys.file, path: PATH, seconds: 3 })
        return await askOpenLoop(running.url, requests, pace)
      })
      figures.get(subject.name)?.push(one)
      print(
        `${round + 1}  ${subject.name.padEnd(20)} p50 ${rounded(one.p50Ms, 2)}  p99 ${rounded(one.p99Ms, 2)}  p99.9 ${rounded(one.p999Ms, 2)} ms${one.failed > 0 ? `  ${one.failed} FAILED` : ''}`,
      )
    }
  }
  return figures
}

/** Nobody is always first. */
function inTurn(round: number): readonly Subject[] {
  const from = round % Math.max(1, subjects.length)
  return [...subjects.slice(from), ...subjects.slice(0, from)]
}

async function withSubject<T>(
  subject: Subject,
  world: World,
  keys: Keys,
  work: (running: RunningSubject) => Promise<T>,
): Promise<T> {
  const own = new Stage()
  try {
    const running = await subject.start(own, world)
    await untilAnswers(running.url, keys.all[0] ?? '')
    return await work(running)
  } finally {
    await own.end()
  }
}

async function untilAnswers(url: string, key: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}` }
  const isUp = () =>
    fetch(url + PATH, { headers }).then(
      ({ ok }) => ok,
      () => false,
    )
  await until(isUp, `${url} answers`, 30_000)
}

/** Of our gateway, when each of many keys has called. */
async function measureMemory(world: World): Promise<number> {
  const own = new Stage()
  try {
    const many = await serveKeys(own, KEYS_FOR_MEMORY, world.directory)
    const http = (port: number) => upstreamConfig(port, many.lookUpUrl)
    const upstream = await startNginx(own, {
      name: 'upstream-of-many',
      core: LOAD_CORE,
      directory: world.directory,
      http,
    })
    const running = await startOurs(own, { ...world, upstreamPort: upstream.port })
    await untilAnswers(running.url, many.all[0] ?? '')
    for (let asked = 0; asked < 1.2 * KEYS_FOR_MEMORY; ) {
      const asking = { keyFile: many.file, path: PATH, seconds: 10 }
      asked += 10 * (await askClosedLoop(running, asking)).callsPerSecond
    }
    return residentMegabytes(running.pid)
  } finally {
    await own.end()
  }
}

function halfOfOurs(closed: ReadonlyMap<string, readonly ClosedLoop[]>): number {
  const ours = closed.get(OURS) ?? []
  return Math.round(median(ours.map(({ callsPerSecond }) => callsPerSecond)) / 2) || 5_000
}

function throughputTable(closed: ReadonlyMap<string, readonly ClosedLoop[]>): string {
  const mid = (name: string, figure: (one: ClosedLoop) => number) =>
    median((closed.get(name) ?? []).map(figure))
  const perSecond = (one: ClosedLoop) => one.callsPerSecond
  const perCpuSecond = (one: ClosedLoop) => one.callsPerCpuSecond
  const ratio = (name: string, to: string, figure: (one: ClosedLoop) => number) =>
    rounded(mid(name, figure) / mid(to, figure), 2)
  const rows = subjects.map(({ name, job }) => {
    const all = closed.get(name) ?? []
    const rates = all.map(perSecond)
    const bound = all.filter(({ loadCoreBusy }) => loadCoreBusy > LOAD_CORE_BUSY_MAX).length
    return [
      name,
      job,
      rounded(median(rates)),
      `${rounded(Math.min(...rates))}–${rounded(Math.max(...rates))}`,
      rounded(mid(name, perCpuSecond)),
      ratio(name, NGINX_LUA, perSecond),
      ratio(name, NGINX_LUA, perCpuSecond),
      ratio(name, FASTIFY, perSecond),
      ratio(name, FASTIFY, perCpuSecond),
      `${rounded(100 * mid(name, ({ loadCoreBusy }) => loadCoreBusy))} %`,
      bound === 0 ? '' : `${bound} of ${all.length}`,
    ]
  })
  return tableOf(
    [
      'subject',
      'job',
      'calls/s',
      'range',
      'calls/CPU s',
      '× nginx+Lua, /s',
      '/CPU s',
      '× Fastify, /s',
      '/CPU s',
      'load core',
      'bound by load',
    ],
    rows,
  )
}

function latencyTable(open: ReadonlyMap<string, readonly OpenLoop[]>): string {
  const mid = (name: string, figure: (one: OpenLoop) => number) =>
    median((open.get(name) ?? []).map(figure))
  const rows = subjects.map(({ name }) => [
    name,
    rounded(
      mid(name, ({ p50Ms }) => p50Ms),
      2,
    ),
    rounded(
      mid(name, ({ p99Ms }) => p99Ms),
      2,
    ),
    rounded(
      mid(name, ({ p999Ms }) => p999Ms),
      2,
    ),
    rounded(mid(name, ({ p50Ms }) => p50Ms) - mid(DIRECT, ({ p50Ms }) => p50Ms), 2),
    rounded(mid(name, ({ p99Ms }) => p99Ms) - mid(DIRECT, ({ p99Ms }) => p99Ms), 2),
    rounded(mid(name, ({ failed }) => failed)),
  ])
  return tableOf(
    ['subject', 'p50 ms', 'p99 ms', 'p99.9 ms', 'p50 added', 'p99 added', 'failed'],
    rows,
  )
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
