import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..', '..')
const files = globSync('{shared,gateway,backend,deploy}/**/*.ts', { cwd: root })

/** What each file imports: project files by their path from the root, packages by name. */
const imports = new Map(
  files.map((file) => {
    const source = readFileSync(join(root, file), 'utf8')
    const specifiers = [...source.matchAll(/(?:from|import)\s*\(?'([^']+)'/g)].map(([, name]) => {
      return name?.startsWith('.') ? relative(root, join(root, dirname(file), name)) : (name ?? '')
    })
    return [file, specifiers] as const
  }),
)

function importersOf(matches: (specifier: string) => boolean): string[] {
  return [...imports].filter(([, names]) => names.some(matches)).map(([file]) => file)
}

t.ok(files.length > 40)

t.test('dependencies point one way', async (t) => {
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
    t.same(found, [], `${from} does not import ${to}`)
  }
})

t.test('the database knows no subject', async (t) => {
  for (const [file, names] of imports) {
    if (!file.startsWith('backend/database/')) continue
    const subjects = names.filter((name) => /^backend\/(?!database\/)/.test(name))
    t.same(subjects, [], file)
  }
})

t.test('a subject uses the domain of another, never its routes', async (t) => {
  for (const [file, names] of imports) {
    const subject = /^backend\/([a-z-]+)\//.exec(file)?.[1]
    if (subject === undefined || subject === 'api') continue
    const foreign = names.filter((name) => {
      return /^backend\/[a-z-]+\/routes\.ts$/.test(name) && !name.startsWith(`backend/${subject}/`)
    })
    t.same(foreign, [], file)
  }
})

t.test('domain files know neither HTTP nor its validation', async (t) => {
  const http = importersOf((name) => name.startsWith('@hapi/') || name === 'joi')
  const domain = http.filter((file) => {
    return (
      /^backend\/(?:accounts|api-keys|debtors|invoices|payments|messages)\//.test(file) &&
      !/\/(?:routes|[a-z-]*body|[a-z-]*input)\.ts$/.test(file)
    )
  })
  t.same(domain, [])
})

t.test('each package that talks to the world has its one door', async (t) => {
  const doors: [packageName: string, allowed: RegExp][] = [
    ['ioredis', /^gateway\/rate-limit\/store\.ts$/],
    ['http-proxy-3', /^gateway\/pages\/proxy\.ts$/],
    [
      'lru-cache',
      /^(?:gateway\/keys\/authenticate|backend\/http\/authentication)\.ts$|^backend\/database\//,
    ],
    [
      'undici',
      /^gateway\/upstream\/|^backend\/(?:cli\/import|webhooks\/(?:connector|sender)\.ts$)/,
    ],
    ['sqlite3', /^backend\/database\//],
    ['pino', /^shared\/process\/log\.ts$/],
    ['js-yaml', /^shared\/contract\/contract\.ts$/],
  ]
  for (const [packageName, allowed] of doors) {
    const importers = importersOf((name) => name === packageName)
    t.same(
      importers.filter((file) => !allowed.test(file)),
      [],
      packageName,
    )
  }
})
