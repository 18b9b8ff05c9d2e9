/**
 * Assigns the cores of the machine to the processes of a benchmark, and measures the CPU time of cores and processes.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { endWithThisProcess } from '../fixtures/service/terminate-children.ts'

/** The measured processes have a core of their own. Load generator, upstream and Redis share the other. */
export const SUBJECT_CORE = 0
export const LOAD_CORE = 1
/** The core of a database server: the third if there is one, otherwise the core of the load generator. */
export const SERVER_CORE = cpus().length > 2 ? 2 : LOAD_CORE

/** The clock ticks per second in /proc, which are constant for programs (proc(5)). */
const TICKS_PER_SECOND = 100

/** Runs the registered teardowns, the last one first. */
export class Cleanup {
  readonly #ends: (() => unknown)[] = []

  teardown(end: () => unknown): void {
    this.#ends.unshift(end)
  }

  async end(): Promise<void> {
    for (const end of this.#ends.splice(0)) await end()
  }
}

/** Moves this process, and the processes that it starts without assigning a core, to the core of the load generator. */
export function moveToLoadCore(): void {
  if (cpus().length < 2) throw new Error('the benchmark needs two cores')
  pin(process.pid, LOAD_CORE)
}

/** Moves a process, with its children and threads, to a core. */
export function pin(pid: number, core: number | 'all'): void {
  const cores = core === 'all' ? `0-${cpus().length - 1}` : String(core)
  for (const one of familyOf(pid)) {
    const move = () => execFileSync('taskset', ['-a', '-p', '-c', cores, String(one)])
    try {
      move()
    } catch {
      // A thread has ended in the meantime.
      move()
    }
  }
}

export interface Started {
  readonly process: ChildProcess
  readonly pid: number
}

/** Starts a command on a core, and ends it in a teardown. Its standard error is shown. */
export function startOn(
  cleanup: Cleanup,
  core: number,
  [command = '', ...args]: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Started {
  const child = spawn('taskset', ['-c', String(core), command, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  endWithThisProcess(child)
  const ended = once(child, 'exit')
  cleanup.teardown(() => {
    child.kill('SIGTERM')
    const timeout = setTimeout(() => child.kill('SIGKILL'), 5_000)
    return ended.finally(() => clearTimeout(timeout))
  })
  if (child.pid === undefined) throw new Error(`${command} cannot be started`)
  return { process: child, pid: child.pid }
}

/** Returns the CPU time of a process and its children, in seconds. */
export function cpuSeconds(pid: number): number {
  return familyOf(pid).reduce((sum, one) => sum + ownCpuSeconds(one), 0)
}

/** Returns the resident memory of a process and its children, in MB. */
export function residentMegabytes(pid: number): number {
  return familyOf(pid).reduce((sum, one) => {
    const [, kilobytes = '0'] = /VmRSS:\s+(\d+)/.exec(proc(one, 'status')) ?? []
    return sum + Number(kilobytes) / 1024
  }, 0)
}

export interface CoreSeconds {
  readonly busy: number
  /** The time in which the host gave the core to another machine. */
  readonly stolen: number
  readonly total: number
}

/** Returns the times of a core since the machine started. */
export function coreSeconds(core: number): CoreSeconds {
  const stat = readFileSync('/proc/stat', 'utf8')
  const line = stat.split('\n').find((one) => one.startsWith(`cpu${core} `)) ?? ''
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, stolen = 0] =
    line
      .split(' ')
      .slice(1)
      .map((ticks) => Number(ticks) / TICKS_PER_SECOND)
  const busy = user + nice + system + irq + softirq
  return { busy, stolen, total: busy + stolen + idle + iowait }
}

function ownCpuSeconds(pid: number): number {
  // The name, in parentheses, may contain spaces.
  const fields = proc(pid, 'stat')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / TICKS_PER_SECOND
}

function familyOf(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    proc(pid, `task/${task}/children`).split(' ').filter(Boolean).map(Number),
  )
  return [pid, ...children.flatMap(familyOf)]
}

function proc(pid: number, file: string): string {
  return readFileSync(`/proc/${pid}/${file}`, 'utf8')
}

/** Checks Debian packages by a file of each. If one is missing, prints how to install it and ends the process. */
export function requirePackages(packages: Readonly<Record<string, string>>): void {
  const missing = Object.keys(packages).filter(
    (name) => globSync(packages[name] ?? '').length === 0,
  )
  if (missing.length === 0) return
  const command = `apt-get install -y --no-install-recommends ${missing.join(' ')}`
  process.stderr.write(`The benchmark needs more Debian packages. As root, run: ${command}\n`)
  process.exit(2)
}

export function describeMachine(): string {
  const [cpu] = cpus()
  return `${cpus().length} × ${cpu?.model.trim()}, Node ${process.version}`
}
