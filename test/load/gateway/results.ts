/** Renders the results of a comparison as tables. */
import { median, rounded, tableOf } from '../report.ts'
import type { ClosedLoop } from './closed-loop.ts'
import type { Cores } from './cores.ts'
import type { OpenLoop } from './open-loop.ts'
import { DIRECT, FASTIFY, NGINX_LUA, type Subject } from './subjects.ts'

/** If the core of the load generator is busier, the figures measure the load generator rather than the subject. */
const LOAD_CORE_BUSY_MAX = 0.85

/** The share of the subject's core that other processes may use. Calls wait while other processes use the core. */
const DISTURBED_MAX = 0.05
/** The share of either core that the host may take. If it takes 1 %, the slowest 1 % of the calls measure the host. */
const STOLEN_MAX = 0.005

/** The results of one subject in one round. */
export interface Round {
  readonly closed: ClosedLoop
  /** The results at each of the fixed rates. */
  readonly open: readonly (OpenLoop & Cores)[]
}

/** The rounds of each subject, by its name. */
export type Rounds = ReadonlyMap<string, readonly Round[]>

export function throughputTable(subjects: readonly Subject[], rounds: Rounds): string {
  const medianOf = (name: string, figure: (one: ClosedLoop) => number) =>
    median((rounds.get(name) ?? []).map(({ closed }) => figure(closed)))
  const perSecond = (one: ClosedLoop) => one.callsPerSecond
  const perCpuSecond = (one: ClosedLoop) => one.callsPerCpuSecond
  const ratio = (name: string, to: string, figure: (one: ClosedLoop) => number) =>
    rounded(medianOf(name, figure) / medianOf(to, figure), 2)
  const rows = subjects.map(({ name, job }) => {
    const all = (rounds.get(name) ?? []).map(({ closed }) => closed)
    const rates = all.map(perSecond)
    const bound = all.filter(({ loadCoreBusy }) => loadCoreBusy > LOAD_CORE_BUSY_MAX).length
    return [
      name,
      job,
      rounded(median(rates)),
      `${rounded(Math.min(...rates))}–${rounded(Math.max(...rates))}`,
      rounded(1e6 / medianOf(name, perCpuSecond), 1),
      ratio(name, NGINX_LUA, perSecond),
      ratio(name, NGINX_LUA, perCpuSecond),
      ratio(name, FASTIFY, perSecond),
      ratio(name, FASTIFY, perCpuSecond),
      `${rounded(100 * medianOf(name, ({ loadCoreBusy }) => loadCoreBusy))} %`,
      bound === 0 ? '' : `${bound} of ${all.length}`,
      disturbedOf(all),
    ]
  })
  const columns = [
    'subject',
    'job',
    'calls/s',
    'range',
    'CPU µs a call',
    '× nginx+Lua, /s',
    '/CPU s',
  ]
  const more = ['× Fastify, /s', '/CPU s', 'load core', 'bound by load', 'disturbed']
  return tableOf([...columns, ...more], rows)
}

/** `rateIndex` selects one of the fixed rates. */
export function latencyTable(
  subjects: readonly Subject[],
  rounds: Rounds,
  rateIndex: number,
): string {
  const openOf = (name: string) =>
    (rounds.get(name) ?? []).flatMap(({ open }) => open[rateIndex] ?? [])
  const medianOf = (name: string, figure: (one: OpenLoop) => number) =>
    median(openOf(name).map(figure))
  const p50 = ({ p50Ms }: OpenLoop) => p50Ms
  const p99 = ({ p99Ms }: OpenLoop) => p99Ms
  const p99OfSecond = (name: string) => median(openOf(name).flatMap((one) => one.p99OfSecondsMs))
  const rows = subjects.map(({ name }) => [
    name,
    rounded(medianOf(name, p50), 2),
    rounded(medianOf(name, p99), 2),
    rounded(
      medianOf(name, ({ p999Ms }) => p999Ms),
      2,
    ),
    rounded(medianOf(name, p50) - medianOf(DIRECT, p50), 2),
    rounded(medianOf(name, p99) - medianOf(DIRECT, p99), 2),
    rounded(p99OfSecond(name), 2),
    rounded(p99OfSecond(name) - p99OfSecond(DIRECT), 2),
    rounded(
      medianOf(name, ({ lateP99Ms }) => lateP99Ms),
      2,
    ),
    rounded(medianOf(name, ({ failed }) => failed)),
    disturbedOf(openOf(name)),
  ])
  const columns = ['subject', 'p50 ms', 'p99 ms', 'p99.9 ms', 'p50 added', 'p99 added']
  const ofSecond = ['p99 of the median second', 'added']
  return tableOf([...columns, ...ofSecond, 'generator late, p99', 'failed', 'disturbed'], rows)
}

/** Whether the figures measure the machine rather than the subject. */
export function isDisturbed({ disturbed, stolen }: Cores): boolean {
  return disturbed > DISTURBED_MAX || stolen > STOLEN_MAX
}

function disturbedOf(rounds: readonly Cores[]): string {
  const disturbed = rounds.filter(isDisturbed).length
  return disturbed === 0 ? '' : `${disturbed} of ${rounds.length}`
}
