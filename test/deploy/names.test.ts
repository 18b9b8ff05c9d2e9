// Checks that names in deploy/ exist: settings, copied files, scripts, metrics and sections of the runbook.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { loadAll } from 'js-yaml'
import t from 'tap'
import { BACKEND_SETTINGS } from '../../backend/config.ts'
import { GATEWAY_SETTINGS } from '../../gateway/config.ts'
import type { Setting } from '../../shared/process/settings.ts'
import { containing, matches } from '../fixtures/matches.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { startSystem } from '../fixtures/service/system.ts'

const root = join(import.meta.dirname, '..', '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const SETTINGS: Readonly<Record<string, Setting<unknown>>> = {
  ...GATEWAY_SETTINGS,
  ...BACKEND_SETTINGS,
}

/** Variables that Node, the C library or PostgreSQL reads. */
const OTHER_VARIABLES =
  /^(?:NODE_ENV|NODE_COMPILE_CACHE|RES_OPTIONS|UV_THREADPOOL_SIZE|MALLOC_MMAP_THRESHOLD_|POSTGRES_\w+)$/

function isKnownVariable(name: string): boolean {
  const [, base = ''] = /^(.+)_FILE$/.exec(name) ?? []
  return name in SETTINGS || SETTINGS[base]?.secret === true || OTHER_VARIABLES.test(name)
}

/** For each file, a pattern that finds the variables to which it assigns a value. */
const ASSIGNED: Readonly<Record<string, RegExp>> = {
  'deploy/Dockerfile': /^(?:ENV| {2,}) ?([A-Z][A-Z_]+)=/gm,
  'deploy/compose.yaml': /^ +([A-Z][A-Z_]+): /gm,
  'deploy/kubernetes/kustomization.yaml': /- ([A-Z][A-Z_]+)=/g,
  'deploy/kubernetes/backend.yaml': /\{ name: ([A-Z][A-Z_]+),/g,
  'deploy/kubernetes/gateway.yaml': /\{ name: ([A-Z][A-Z_]+),/g,
  'deploy/systemd/receivables.env.example': /^#?([A-Z][A-Z_]+)=/gm,
  'deploy/systemd/receivables-backend@.service': /^Environment=([A-Z][A-Z_]+)=/gm,
  'deploy/systemd/receivables-gateway@.service': /^Environment=([A-Z][A-Z_]+)=/gm,
}

function namesIn(path: string, pattern: RegExp): string[] {
  return [...read(path).matchAll(pattern)].map(([, name = '']) => name)
}

t.test(
  'every variable that a file in deploy/ sets is a setting, or is read by Node, the C library or PostgreSQL',
  async (t) => {
    for (const [path, pattern] of Object.entries(ASSIGNED)) {
      const names = namesIn(path, pattern)
      t.ok(names.length > 0, path)
      t.strictSame(
        names.filter((name) => !isKnownVariable(name)),
        [],
        path,
      )
    }
  },
)

t.test('the example environment file lists every setting with its default', async (t) => {
  const text = read('deploy/systemd/receivables.env.example')
  const valuesByName = new Map(
    [...text.matchAll(/^#?([A-Z][A-Z_]+)=(.*)$/gm)].map(([, name = '', value = '']) => [
      name,
      value,
    ]),
  )
  const named = [...valuesByName.keys()].map((name) => name.replace(/_FILE$/, ''))
  t.strictSame(new Set(named), new Set(Object.keys(SETTINGS)))
  const defaults = [...text.matchAll(/^#([A-Z][A-Z_]+)=(.*)$/gm)]
  t.ok(defaults.length > 30, `${defaults.length} settings with a default`)
  for (const [, name = '', value] of defaults) {
    // These values depend on the machine.
    if (/_FILE$|^(?:DATA_DIR|MAIL_FROM)$/.test(name)) continue
    t.equal(value, SETTINGS[name]?.fallback, name)
  }
})

// Regression: the backend could not create its socket, because the directory did not exist under the unit.
t.test('the unit of the backend creates the directory of the documented socket', async (t) => {
  const [, directory] =
    /BACKEND_SOCKET=\/run\/([\w/-]+)\/\w+\.sock/.exec(read('docs/scaling.md')) ?? []
  const unit = read('deploy/systemd/receivables-backend@.service')
  matches(t, unit, containing(`\nRuntimeDirectory=${directory}\nRuntimeDirectoryPreserve=yes\n`))
})

t.test(
  'every path that the Dockerfile copies exists, and so does every script that deploy/ runs',
  async (t) => {
    const dockerfile = read('deploy/Dockerfile')
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(
      ([, paths = '']) => paths.split(' '),
    )
    t.ok(copied.length > 5)
    const ignored = read('deploy/Dockerfile.dockerignore')
    for (const path of copied) {
      t.ok(existsSync(join(root, path)), path)
      matches(t, ignored, containing(`!${path}`), `${path} is in the build's context`)
    }
    const files = globSync('deploy/{Dockerfile,compose.yaml,kubernetes/*,systemd/*}', { cwd: root })
    const scripts = files.flatMap((file) => [
      ...new Set([...read(file).matchAll(/\b(?:gateway|backend|deploy)\/\w+\.ts\b/g)].flat()),
    ])
    t.ok(scripts.length > 8)
    for (const script of scripts) t.ok(existsSync(join(root, script)), script)
  },
)

t.test('the image has the version of Node that runs the tests', async (t) => {
  const { devDependencies } = JSON.parse(read('package.json'))
  const images = [...read('deploy/Dockerfile').matchAll(/^FROM node:([\d.]+)-/gm)]
  t.strictSame(
    images.map(([, version]) => version),
    [devDependencies.node],
  )
})

t.test('every YAML file can be parsed, and the Kubernetes base lists its manifests', async (t) => {
  for (const path of globSync('deploy/**/*.yaml', { cwd: root })) {
    t.ok(loadAll(read(path)).length > 0, path)
  }
  const [base] = loadAll(read('deploy/kubernetes/kustomization.yaml')) as { resources: string[] }[]
  const manifests = globSync('deploy/kubernetes/*.yaml', { cwd: root }).map((path) =>
    basename(path),
  )
  t.strictSame(
    manifests.filter((name) => name !== 'kustomization.yaml').toSorted(),
    base?.resources.toSorted(),
  )
})

const METRIC = /\b(?:receivables|nodejs|process)_[a-z0-9_]+\b/g

/** Returns the metrics that the expressions name. Other text, such as a summary, is ignored. */
function metricsIn(path: string, expressions: RegExp): string[] {
  const found = [...read(path).matchAll(expressions)].map(([text]) => text).join('\n')
  return [...new Set(found.match(METRIC))]
}

t.test(
  'every metric in the alerts and the dashboard is exposed, or documented if it requires TLS',
  async (t) => {
    const redis = await startRedis(t)
    const system = await startSystem(t, { redisUrl: redis.url })
    const ports = [system.backend, ...system.gateways].map((process) => process.operationsPort)
    const responses = ports.map(async (port) =>
      (await fetch(`http://127.0.0.1:${port}/metrics`)).text(),
    )
    const exposed = (await Promise.all(responses)).join('\n')
    const types = new Map(
      [...exposed.matchAll(/^# TYPE (\S+) (\w+)$/gm)].map(([, name = '', type]) => [name, type]),
    )
    const used = [
      ...metricsIn('deploy/prometheus/alerts.yaml', /expr:(?:.*|[\s\S]*?)(?=\n +(?:for|labels):)/g),
      ...metricsIn('deploy/grafana/dashboard.json', /"expr": .*/g),
    ]
    t.ok(used.length > 30)
    const documented = read('docs/metrics.md')
    for (const name of new Set(used)) {
      const base = name.replace(/_bucket$/, '')
      // A gateway exposes the metrics of TLS only if TLS is configured.
      if (base.includes('_tls_'))
        matches(t, documented, containing(`\`${base}\``), `${base} is documented`)
      else t.ok(types.has(base), base)
      if (name !== base) t.equal(types.get(base), 'histogram', name)
    }
  },
)

t.test('every alert has a section in the runbook, and every section has an alert', async (t) => {
  const alerts = [...read('deploy/prometheus/alerts.yaml').matchAll(/- alert: (\w+)/g)].map(
    ([, name = '']) => name,
  )
  t.ok(alerts.length > 10)
  const sections = [...read('docs/operations.md').matchAll(/^### (Receivables\w+)$/gm)]
  t.strictSame(
    sections.map(([, name]) => name),
    alerts,
  )
  const links = [...read('deploy/prometheus/alerts.yaml').matchAll(/runbook: (\S+)$/gm)]
  t.strictSame(
    links.map(([, link]) => link),
    alerts.map((name) => `docs/operations.md#${name.toLowerCase()}`),
  )
})
