/** `npm run bench`: runs the benchmarks `gateway` and `product`, or the one that is named. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const HELP = `Benchmarks. They need a machine with two cores that does nothing else.

Usage: npm run bench                         runs gateway, then product
       npm run bench -- NAME [options]       runs one benchmark; --help lists its options

  gateway   compares this gateway with nginx and Lua, Fastify and bare proxies
  product   compares gateway, backend and database with bare hapi
  overload  sends the whole product three times its maximum rate of calls
  lists     measures reads and lists with a thousand to a million invoices
  key-use   measures payments while 10,000 keys are used within four seconds
  docs      measures how fast a browser shows pages of the documentation

docs/performance.md explains the results, except those of key-use.
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
  out.write(isRequested ? HELP : `bench: there is no benchmark ${name}\n\n${HELP}`)
  process.exitCode = isRequested ? 0 : 2
}

async function run(name: string, options: readonly string[]): Promise<number> {
  const script = fileURLToPath(new URL(`${name}.ts`, import.meta.url))
  const child = spawn(process.execPath, [script, ...options], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  return code ?? 1
}
