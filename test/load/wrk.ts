/**
 * Runs wrk with a script that loads `summary.lua`, and returns the summary that `summary.lua` prints in the last line.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface WrkOptions {
  readonly script: string
  /** The arguments of the script's `init`. */
  readonly args: readonly string[]
  readonly connections: number
  readonly seconds: number
}

export interface WrkSummary {
  readonly calls: number
  readonly seconds: number
  /** The number of calls without a response, or with a status of 400 or more. */
  readonly failed: number
  readonly p50_ms: number
  readonly p99_ms: number
}

/** The folder of the modules that scripts load. */
const LUA_PATH = join(import.meta.dirname, '?.lua')

const MEMBERS = ['calls', 'seconds', 'failed', 'p50_ms', 'p99_ms']

export async function runWrk(
  url: string,
  { script, args, connections, seconds }: WrkOptions,
): Promise<WrkSummary> {
  const { stdout } = await promisify(execFile)(
    'wrk',
    [
      ...['--threads', '1', '--connections', String(connections), '--duration', `${seconds}s`],
      ...['--timeout', '10s', '--script', script, url, '--', ...args],
    ],
    { env: { ...process.env, LUA_PATH } },
  )
  const summary: unknown = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  if (!isSummary(summary)) throw new Error(`unexpected output of wrk: ${stdout}`)
  return summary
}

function isSummary(value: unknown): value is WrkSummary {
  return (
    typeof value === 'object' &&
    value !== null &&
    MEMBERS.every((name) => typeof Reflect.get(value, name) === 'number')
  )
}
