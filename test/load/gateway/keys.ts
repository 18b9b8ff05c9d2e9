/** The keys that callers hold, and the service that gateways ask who holds them. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mintApiKey } from '../../../shared/contract/api-key.ts'
import { reservePort } from '../../fixtures/servers/ports.ts'
import { until } from '../../fixtures/service/until.ts'
import { LOAD_CORE, type Stage, startOn } from '../machine.ts'

const SERVICE = fileURLToPath(new URL('key-service.ts', import.meta.url))

export interface Keys {
  /** Their secrets. */
  readonly all: readonly string[]
  /** A file with a secret a line. */
  readonly file: string
  /** Answers `POST` with a secret as its body (the peers), and our own gateways' look-ups. */
  readonly lookUpUrl: string
}

export async function serveKeys(stage: Stage, count: number, directory: string): Promise<Keys> {
  const all = Array.from({ length: count }, () => mintApiKey().secret)
  const file = join(directory, `keys-${count}`)
  writeFileSync(file, `${all.join('\n')}\n`)
  const port = await reservePort()
  startOn(stage, LOAD_CORE, [process.execPath, SERVICE, file, String(port)])
  const lookUpUrl = `http://127.0.0.1:${port}/`
  const isUp = () =>
    fetch(`${lookUpUrl}ready`).then(
      ({ ok }) => ok,
      () => false,
    )
  await until(isUp, 'the service of keys answers', 30_000)
  return { all, file, lookUpUrl }
}
