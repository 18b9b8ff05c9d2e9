/** Creates the keys that callers use, and starts the service that looks them up for gateways. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mintApiKey } from '../../../shared/contract/api-key.ts'
import { reservePort } from '../../fixtures/servers/ports.ts'
import { type Cleanup, LOAD_CORE, startOn } from '../machine.ts'
import { untilResponding } from '../responding.ts'

const SERVICE = fileURLToPath(new URL('key-service.ts', import.meta.url))

export interface Keys {
  /** The secrets. */
  readonly all: readonly string[]
  /** A file with one secret per line. */
  readonly file: string
  /** The URL for look-ups. Peers send the secret as the body of a `POST`; our own gateways send its digest as JSON. */
  readonly lookUpUrl: string
}

export async function serveKeys(cleanup: Cleanup, count: number, directory: string): Promise<Keys> {
  const all = Array.from({ length: count }, () => mintApiKey().secret)
  const file = join(directory, `keys-${count}`)
  writeFileSync(file, `${all.join('\n')}\n`)
  const port = await reservePort()
  startOn(cleanup, LOAD_CORE, [process.execPath, SERVICE, file, String(port)])
  const lookUpUrl = `http://127.0.0.1:${port}/`
  await untilResponding(`${lookUpUrl}ready`)
  return { all, file, lookUpUrl }
}
