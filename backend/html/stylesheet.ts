import { readFileSync } from 'node:fs'

/** Reads a stylesheet, preceded by the rules that Settings and the documentation share. */
export function readStylesheet(file: URL): Buffer {
  const base = readFileSync(new URL('./assets/base.css', import.meta.url))
  return Buffer.concat([base, Buffer.from('\n'), readFileSync(file)])
}
