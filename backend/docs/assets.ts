/** What pages load, under names that change with what is in them: it can be kept for ever. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

export interface Asset {
  readonly path: string
  readonly type: string
  readonly content: Buffer
}

export function createAsset(name: string, type: string, content: Buffer): Asset {
  const version = createHash('sha256').update(content).digest('base64url').slice(0, 12)
  return { path: `/docs/assets/${version}/${name}`, type, content }
}

/** Of `assets/`. */
export function readAsset(name: string, type: string): Asset {
  return createAsset(name, type, readFileSync(new URL(`./assets/${name}`, import.meta.url)))
}
