/** Measures how many calls a subject serves if 64 connections send the next call at once (wrk). */
import { fileURLToPath } from 'node:url'
import { runWrk } from '../wrk.ts'
import { type Cores, watchCores } from './cores.ts'
import type { RunningSubject } from './subjects.ts'

const CONNECTIONS = 64
const SCRIPT = fileURLToPath(new URL('peers/wrk.lua', import.meta.url))

/** The duration of a warm-up run, and the maximum number of runs. */
const WARM_UP_SECONDS = 3
const WARM_UP_RUNS_MAX = 6
/** A smaller improvement is noise. */
const FASTER_MIN = 1.03

export interface ClosedLoop extends Cores {
  readonly callsPerSecond: number
  /** Calls per second of the subject's own CPU time; NaN if it has no process. */
  readonly callsPerCpuSecond: number
  readonly failed: number
}

export interface Load {
  readonly keyFile: string
  readonly path: string
  readonly seconds: number
}

export async function runClosedLoop(
  subject: RunningSubject,
  requesting: Load,
): Promise<ClosedLoop> {
  const endWatch = watchCores(subject)
  const { calls, seconds, failed } = await runWrk(subject.url, {
    script: SCRIPT,
    // The keys of the file are used in turn, beginning with a random one.
    args: [requesting.keyFile, requesting.path, String(Math.random())],
    connections: CONNECTIONS,
    seconds: requesting.seconds,
  })
  if (calls === 0) throw new Error(`${subject.url} no longer responds`)
  const cores = endWatch()
  const callsPerCpuSecond = calls / cores.subjectSeconds
  return { ...cores, callsPerSecond: calls / seconds, callsPerCpuSecond, failed }
}

/**
 * Runs until the subject has twice in a row served no more calls per second of its CPU time than before, because
 * code that is compiled while it runs becomes faster at first.
 */
export async function warmUp(subject: RunningSubject, requesting: Omit<Load, 'seconds'>) {
  let best = 0
  let runsWithoutGain = 0
  for (let run = 0; run < WARM_UP_RUNS_MAX && runsWithoutGain < 2; run++) {
    const requested = await runClosedLoop(subject, { ...requesting, seconds: WARM_UP_SECONDS })
    const rate = subject.pid === 0 ? requested.callsPerSecond : requested.callsPerCpuSecond
    runsWithoutGain = rate < FASTER_MIN * best ? runsWithoutGain + 1 : 0
    best = Math.max(best, rate)
  }
}
