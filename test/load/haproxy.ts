/** Starts HAProxy with one thread. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { reservePort } from '../fixtures/servers/ports.ts'
import { type Cleanup, type Started, SUBJECT_CORE, startOn } from './machine.ts'

export interface HaproxyOptions {
  readonly directory: string
  /** Returns the sections that listen on the port. */
  readonly sections: (port: number) => string
  /** The core of the measured programs by default. */
  readonly core?: number
}

export async function startHaproxy(
  cleanup: Cleanup,
  { directory, sections, core = SUBJECT_CORE }: HaproxyOptions,
): Promise<Started & { readonly port: number }> {
  const port = await reservePort()
  const file = join(directory, 'haproxy.cfg')
  writeFileSync(
    file,
    `global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 1s
  timeout client 75s
  timeout server 10s
  option http-keep-alive
  http-reuse always
${sections(port)}`,
  )
  return { ...startOn(cleanup, core, ['haproxy', '-db', '-q', '-f', file]), port }
}
