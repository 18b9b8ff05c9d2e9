/** How busy the two cores are while a subject is asked, and with what. */
import { coreSeconds, cpuSeconds, LOAD_CORE, SUBJECT_CORE } from '../machine.ts'
import type { RunningSubject } from './subjects.ts'

export interface Cores {
  /** What the subject's own processes took. NaN where it has none. */
  readonly subjectSeconds: number
  /** Share of the time that the core of load, upstream and Redis was busy. */
  readonly loadCoreBusy: number
  /** Share of the subject's core that something else took: the machine was not idle. */
  readonly disturbed: number
  /** Share of the time that the host kept from the worse off of the two. */
  readonly stolen: number
}

/** Begins to look; the result says what came of it until it is called. */
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
