import { readFileSync } from 'node:fs'

/** A stylesheet, after the rules that Settings and the documentation have in common. */
export function readStylesheet(file: URL): Buffer {
  const base = readFileSync(new URL('./assets/base.css', import.meta.url))
  return Buffer.concat([base, Buffer.from('\n'), readFileSync(file)])
}
