/** `npm run bench`: the comparisons, one after the other or one of them. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const HELP = `Benchmarks. They need a machine of two cores that does nothing else.

Usage: npm run bench                         gateway, then product
       npm run bench -- NAME [options]       one of them; --help says its options

  gateway   this gateway beside nginx with Lua, Fastify and bare proxies
  product   gateway, backend and database beside bare hapi
  overload  the whole product at three times what it can serve
  lists     reads and lists in books of a thousand to a million invoices
  key-use   payments beside 10,000 keys that are used in four seconds
  docs      how soon a browser shows pages of the documentation

docs/performance.md says how to read them.
`
const NAMES = ['gateway', 'product', 'overload', 'lists', 'key-use', 'docs']

const [name, ...options] = process.argv.slice(2)
if (name === undefined) {
  process.exitCode = (await run('gateway', [])) || (await run('product', []))
} else if (NAMES.includes(name)) {
  process.exitCode = await run(name, options)
} else {
  const isRequested = name === '--help' || name === '-h'
  const out = isRequested ? process.stdout : process.stderr
  out.write(isRequested ? HELP : `bench: there is no ${name}\n\n${HELP}`)
  process.exitCode = isRequested ? 0 : 2
}

async function run(name: string, options: readonly string[]): Promise<number> {
  const script = fileURLToPath(new URL(`${name}.ts`, import.meta.url))
  const child = spawn(process.execPath, [script, ...options], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  return code ?? 1
}
