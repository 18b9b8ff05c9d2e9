/** Limits the CPU time of a process with a control group, as container runtimes do. */
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cleanup } from './machine.ts'

/** A short period, so that a process that has used up its share does not stop for long. */
const PERIOD_US = 10_000

/** The control groups of version 2, and those of version 1 that limit CPU time. */
const V2 = '/sys/fs/cgroup'
const V1 = '/sys/fs/cgroup/cpu'

/** Limits a process to a share of one core, from 0 to 1, until the cleanup. Needs root. */
export function limitCpu(cleanup: Cleanup, pid: number, share: number): void {
  if (!(share > 0 && share <= 1))
    throw new Error(`A share of a core is above 0 and at most 1, not ${share}`)
  const quotaUs = Math.round(share * PERIOD_US)
  const isV1 = existsSync(V1)
  const parent = isV1 ? V1 : V2
  const group = join(parent, `receivables-bench-${pid}`)
  const write = (file: string, value: string) => writeFileSync(join(group, file), value)
  try {
    mkdirSync(group)
    if (isV1) {
      write('cpu.cfs_period_us', String(PERIOD_US))
      write('cpu.cfs_quota_us', String(quotaUs))
    } else {
      write('cpu.max', `${quotaUs} ${PERIOD_US}`)
    }
    write('cgroup.procs', String(pid))
  } catch (cause) {
    throw new Error(`The CPU time cannot be limited: ${parent} must be writable (as root)`, {
      cause,
    })
  }
  cleanup.teardown(() => {
    writeFileSync(join(parent, 'cgroup.procs'), String(pid))
    rmdirSync(group)
  })
}
