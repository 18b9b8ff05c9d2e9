/** Measures how busy the two cores are while a subject is under load, and what takes their time. */
import { coreSeconds, cpuSeconds, LOAD_CORE, SUBJECT_CORE } from '../machine.ts'
import type { RunningSubject } from './subjects.ts'

export interface Cores {
  /** The CPU time of the subject's own processes; NaN if it has none. */
  readonly subjectSeconds: number
  /** The share of the time in which the core of load generator, upstream and Redis was busy. */
  readonly loadCoreBusy: number
  /** The share of the subject's core that other processes used: it is above 0 if the machine was not idle. */
  readonly disturbed: number
  /** The share of the time that the host took from one of the two cores, whichever lost more. */
  readonly stolen: number
}

/** Starts measuring. Returns a function that returns the figures since then. */
export function watchCores({ pid }: RunningSubject): () => Cores {
  const own = () => (pid === 0 ? 0 : cpuSeconds(pid))
  const before = { own: own(), subject: coreSeconds(SUBJECT_CORE), load: coreSeconds(LOAD_CORE) }
  return () => {
    const subject = coreSeconds(SUBJECT_CORE)
    const load = coreSeconds(LOAD_CORE)
    const ownSeconds = own() - before.own
    const subjectTotal = subject.total - before.subject.total
    const loadTotal = load.total - before.load.total
    return {
      subjectSeconds: pid === 0 ? Number.NaN : ownSeconds,
      loadCoreBusy: (load.busy - before.load.busy) / loadTotal,
      disturbed: Math.max(0, subject.busy - before.subject.busy - ownSeconds) / subjectTotal,
      stolen: Math.max(
        (subject.stolen - before.subject.stolen) / subjectTotal,
        (load.stolen - before.load.stolen) / loadTotal,
      ),
    }
  }
}
