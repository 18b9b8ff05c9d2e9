/** What is served as it was made at the start: pages, and what they load. */
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'

export interface Asset {
  readonly path: string
  readonly type: string
  readonly content: Buffer
  /** The same, a fifth as long: the reference is 190 kB of words that come again and again. */
  readonly zipped: Buffer
  /** Names what is in it. */
  readonly version: string
}

export function createFile(path: string, type: string, content: Buffer): Asset {
  const zipped = gzipSync(content, { level: 9 })
  return { path, type, content, zipped, version: versionOf(content) }
}

/** Under a name that changes with what is in it: it can be kept for ever. */
export function createAsset(name: string, type: string, content: Buffer): Asset {
  return createFile(`/docs/assets/${versionOf(content)}/${name}`, type, content)
}

function versionOf(content: Buffer): string {
  return createHash('sha256').update(content).digest('base64url').slice(0, 12)
}
