/** Measures with wrk how many calls a subject serves if 64 connections each send a call after every response. */
import { fileURLToPath } from 'node:url'
import { runWrk } from '../wrk.ts'
import { type Cores, watchCores } from './cores.ts'
import type { RunningSubject } from './subjects.ts'

const CONNECTIONS = 64
const SCRIPT = fileURLToPath(new URL('peers/wrk.lua', import.meta.url))

/** The duration of a warm-up run, and the maximum number of runs. */
const WARM_UP_SECONDS = 3
const WARM_UP_RUNS_MAX = 6
/** A run counts as faster if it serves at least this many times as many calls. A smaller difference is noise. */
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

export async function runClosedLoop(subject: RunningSubject, load: Load): Promise<ClosedLoop> {
  const endWatch = watchCores(subject)
  const { calls, seconds, failed } = await runWrk(subject.url, {
    script: SCRIPT,
    // The keys of the file are used in turn, beginning with a random one.
    args: [load.keyFile, load.path, String(Math.random())],
    connections: CONNECTIONS,
    seconds: load.seconds,
  })
  if (calls === 0) throw new Error(`${subject.url} no longer responds`)
  const cores = endWatch()
  const callsPerCpuSecond = calls / cores.subjectSeconds
  return { ...cores, callsPerSecond: calls / seconds, callsPerCpuSecond, failed }
}

/**
 * Warms up the subject, because code that is compiled at run time becomes faster at first. Ends when two successive
 * runs are not faster than the best run before, or after `WARM_UP_RUNS_MAX` runs.
 */
export async function warmUp(subject: RunningSubject, load: Omit<Load, 'seconds'>) {
  let best = 0
  let runsWithoutGain = 0
  for (let run = 0; run < WARM_UP_RUNS_MAX && runsWithoutGain < 2; run++) {
    const figures = await runClosedLoop(subject, { ...load, seconds: WARM_UP_SECONDS })
    const rate = subject.pid === 0 ? figures.callsPerSecond : figures.callsPerCpuSecond
    runsWithoutGain = rate < FASTER_MIN * best ? runsWithoutGain + 1 : 0
    best = Math.max(best, rate)
  }
}
