import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'

export interface Asset {
  readonly path: string
  /** The media type. */
  readonly type: string
  readonly content: Uint8Array
  /** The content, compressed with gzip. */
  readonly zipped: Uint8Array
  /** A digest of the content, for the path of an immutable asset and for `ETag`. */
  readonly version: string
  /** Whether the path changes with the content, so that the file can be cached forever. */
  readonly isImmutable: boolean
}

export function createAsset(path: string, type: string, content: Buffer | string): Asset {
  const bytes = Buffer.from(content)
  const zipped = gzipSync(bytes, { level: 9 })
  return { path, type, content: bytes, zipped, version: versionOf(bytes), isImmutable: false }
}

export function createImmutableAsset(name: string, type: string, content: Buffer | string): Asset {
  const path = `/docs/assets/${versionOf(content)}/${name}`
  return { ...createAsset(path, type, content), isImmutable: true }
}

function versionOf(content: Buffer | string): string {
  return createHash('sha256').update(content).digest('base64url').slice(0, 12)
}
