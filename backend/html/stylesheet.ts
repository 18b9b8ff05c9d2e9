import { readFileSync } from 'node:fs'

/** Returns the rules that Settings and the documentation share, followed by the stylesheet in `file`. */
export function readStylesheet(file: URL): Buffer {
  const base = readFileSync(new URL('./assets/base.css', import.meta.url))
  return Buffer.concat([base, Buffer.from('\n'), readFileSync(file)])
}
