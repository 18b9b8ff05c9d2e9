/** As many calls as a subject answers while 64 connections each ask again at once (wrk). */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { coreSeconds, cpuSeconds, LOAD_CORE } from '../machine.ts'
import type { RunningSubject } from './subjects.ts'

const CONNECTIONS = 64
const SCRIPT = fileURLToPath(new URL('peers/wrk.lua', import.meta.url))

export interface ClosedLoop {
  readonly callsPerSecond: number
  /** Of the subject's own CPU time. NaN where it has no process. */
  readonly callsPerCpuSecond: number
  /** Share of the time that the core of load, upstream and Redis was busy. */
  readonly loadCoreBusy: number
  readonly failed: number
}

export interface Asking {
  readonly keyFile: string
  readonly path: string
  readonly seconds: number
}

export async function askClosedLoop(subject: RunningSubject, asking: Asking): Promise<ClosedLoop> {
  const cpuBefore = subject.pid === 0 ? 0 : cpuSeconds(subject.pid)
  const coreBefore = coreSeconds(LOAD_CORE)
  const { calls, seconds, failed } = await runWrk(subject.url, asking)
  const core = coreSeconds(LOAD_CORE)
  const cpu = subject.pid === 0 ? Number.NaN : cpuSeconds(subject.pid) - cpuBefore
  return {
    callsPerSecond: calls / seconds,
    callsPerCpuSecond: calls / cpu,
    loadCoreBusy: (core.busy - coreBefore.busy) / (core.total - coreBefore.total),
    failed,
  }
}

/** Asks with every key of the file in turn, from a random one on. */
async function runWrk(url: string, { keyFile, path, seconds }: Asking) {
  const { stdout } = await promisify(execFile)('wrk', [
    ...['--threads', '1', '--connections', String(CONNECTIONS), '--duration', `${seconds}s`],
    ...['--timeout', '10s', '--script', SCRIPT, url],
    ...['--', keyFile, path, String(Math.random())],
  ])
  const summary: unknown = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  if (!isSummary(summary)) throw new Error(`wrk said: ${stdout}`)
  return summary
}

function isSummary(
  value: unknown,
): value is { readonly calls: number; readonly seconds: number; readonly failed: number } {
  return (
    typeof value === 'object' &&
    value !== null &&
    ['calls', 'seconds', 'failed'].every((name) => typeof Reflect.get(value, name) === 'number')
  )
}
