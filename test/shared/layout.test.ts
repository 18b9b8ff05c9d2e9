import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { BACKEND_LAYOUT } from '../fixtures/layout/backend-layout.ts'
import { GATEWAY_LAYOUT, SHARED_LAYOUT } from '../fixtures/layout/gateway-layout.ts'
import { layoutFaults, readImports } from '../fixtures/layout/layout-faults.ts'

const root = join(import.meta.dirname, '..', '..')
const imports = readImports(root, '{shared,gateway,backend,deploy}/**/*.ts')

function importersOf(matches: (specifier: string) => boolean): string[] {
  return [...imports].filter(([, names]) => names.some(matches)).map(([file]) => file)
}

t.ok(imports.size > 300, 'the files were found')

t.test('gateway, backend and shared import no folder that they must not depend on', async (t) => {
  const forbidden: [from: string, to: string][] = [
    ['shared/', 'gateway/'],
    ['shared/', 'backend/'],
    ['gateway/', 'backend/'],
    ['backend/', 'gateway/'],
    ['backend/', 'deploy/'],
    ['backend/', 'test/'],
    ['gateway/', 'test/'],
  ]
  for (const [from, to] of forbidden) {
    const found = importersOf((name) => name.startsWith(to)).filter((file) => file.startsWith(from))
    t.strictSame(found, [], `${from} does not import ${to}`)
  }
})

t.test('files of backend/ import only earlier folders of its table', async (t) => {
  t.strictSame(layoutFaults(imports, BACKEND_LAYOUT), [])
})

t.test('files of gateway/ and shared/ import only earlier folders of their tables', async (t) => {
  t.strictSame(layoutFaults(imports, GATEWAY_LAYOUT), [])
  t.strictSame(layoutFaults(imports, SHARED_LAYOUT), [])
})

t.test('gateway/http1 imports nothing but Node, so that it can be tested alone', async (t) => {
  const outside = [...imports]
    .filter(([file]) => file.startsWith('gateway/http1/'))
    .flatMap(([file, names]) => names.map((name) => ({ file, name })))
    .filter(({ name }) => !name.startsWith('gateway/http1/') && !name.startsWith('node:'))
    .map(({ file, name }) => `${file} imports ${name}: pass in what it needs as an argument.`)
  t.strictSame(outside, [])
})

t.test('domain files import neither the web framework nor joi', async (t) => {
  const importers = importersOf((name) => name.startsWith('@hapi/') || name === 'joi')
  const domain = importers.filter((file) => {
    return (
      /^backend\/(?:accounts|api-keys|debtors|invoices|payments|messages)\//.test(file) &&
      !/\/(?:routes|[a-z-]*body|[a-z-]*input)\.ts$/.test(file)
    )
  })
  t.strictSame(domain, [])
})

t.test('each wrapped package is imported only where it is wrapped', async (t) => {
  const wrappers: [packageName: string, allowed: RegExp][] = [
    ['ioredis', /^gateway\/rate-limit\/redis-store\.ts$/],
    ['http-proxy-3', /^gateway\/pages\/proxy\.ts$/],
    [
      'lru-cache',
      /^(?:gateway\/keys\/authenticator|backend\/calendar\/date-formats|backend\/http\/authentication)\.ts$|^backend\/database\//,
    ],
    [
      'undici',
      /^gateway\/upstream\/connect\.ts$|^backend\/(?:cli\/import|webhooks\/(?:connector|sender)\.ts$)/,
    ],
    ['sqlite3', /^backend\/database\//],
    ['pino', /^shared\/process\/log\.ts$/],
    ['js-yaml', /^shared\/contract\/contract\.ts$/],
  ]
  for (const [packageName, allowed] of wrappers) {
    const importers = importersOf((name) => name === packageName)
    t.strictSame(
      importers.filter((file) => !allowed.test(file)),
      [],
      `${packageName} is imported only where it is wrapped`,
    )
  }
})

t.test('lines of comments have at most 120 characters', async (t) => {
  const files = globSync('{shared,gateway,backend,deploy,test}/**/*.ts', {
    cwd: root,
    exclude: (path) => String(path).endsWith('node_modules'),
  })
  const tooLong = files.flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, at) =>
        line.length > 120 && /^ *(?:\*|\/[/*])/.test(line) ? [`${file}:${at + 1}`] : [],
      ),
  )
  t.strictSame(tooLong, [])
})
