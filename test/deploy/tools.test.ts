// Checks the files of deploy/ with promtool, systemd-analyze and kubectl, if they are installed.
import { execFile, spawnSync } from 'node:child_process'
import { chmodSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { loadAll } from 'js-yaml'
import t from 'tap'
import { matches } from '../fixtures/matches.ts'

const root = join(import.meta.dirname, '..', '..')

const missing = (command: string) =>
  spawnSync(command, ['--version'], { stdio: 'ignore' }).error === undefined
    ? false
    : `${command} is not installed`

const run = async (command: string, ...words: string[]) =>
  (await promisify(execFile)(command, words, { cwd: join(root, 'deploy') })).stdout

t.test(
  'Prometheus accepts the rules, and alerts fire when they should',
  {
    skip: missing('promtool'),
  },
  async (t) => {
    matches(t, await run('promtool', 'check', 'rules', 'prometheus/alerts.yaml'), /SUCCESS/)
    matches(t, await run('promtool', 'check', 'config', 'prometheus/prometheus.yaml'), /SUCCESS/)
    matches(t, await run('promtool', 'test', 'rules', 'prometheus/alerts.test.yaml'), /SUCCESS/)
  },
)

t.test(
  'systemd rates the units as well sandboxed',
  {
    skip: missing('systemd-analyze'),
  },
  async (t) => {
    for (const name of ['gateway', 'backend']) {
      const unit = `systemd/receivables-${name}@.service`
      // The command exits with 1 if the unit's exposure is above the threshold.
      matches(
        t,
        await run('systemd-analyze', 'security', '--offline=true', '--threshold=20', unit),
        /OK/,
      )
    }
  },
)

t.test('the command line under systemd gets its arguments unchanged', async (t) => {
  // Regression: systemd removed `$100` from the name `A $100 B`. This test replaces systemd with a program that prints
  // its arguments.
  const directory = t.testdir({ 'systemd-run': '#!/bin/sh\nprintf "%s\\n" "$@"\n' })
  chmodSync(join(directory, 'systemd-run'), 0o755)
  const env = { ...process.env, PATH: `${directory}:${process.env['PATH']}` }
  const words = ['accounts', 'create', '--name', `A $100 \${B} % \\ "c'  d`, '']
  const script = join(root, 'deploy/systemd/receivables')
  const { stdout } = await promisify(execFile)('sh', [script, ...words], { env })
  const passed = stdout.split('\n').slice(-words.length - 1, -1)
  // The manual of systemd says that `$$` in an argument stands for `$`.
  t.strictSame(
    passed.map((word) => word.replaceAll('$$', '$')),
    words,
  )
  t.notMatch(passed.join().replaceAll('$$', ''), '$')
})

t.test(
  'kustomize builds the base, and no object occurs twice',
  { skip: missing('kubectl') },
  async (t) => {
    const objects = loadAll(await run('kubectl', 'kustomize', 'kubernetes')) as {
      kind: string
      metadata: { name: string }
    }[]
    const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    t.equal(new Set(names).size, names.length)
    matches(t, names.join(), /Deployment receivables-backend.*Deployment receivables-gateway/)
  },
)

// Regression: the startup probe killed a backend that had migrated the database for ten minutes.
t.test(
  'on Kubernetes, a new pod migrates the database with the new image before its backend starts',
  { skip: missing('kubectl') },
  async (t) => {
    const read = (path: string) => readFileSync(join(root, path), 'utf8')
    const [, image = ''] =
      /set image deployment\/\S+ '(\S+)'/.exec(read('docs/operations.md')) ?? []
    // Of the objects in the file, `kubectl set image` accepts only the Deployment.
    const [manifest = ''] = read('deploy/kubernetes/backend.yaml').split('\n---\n')
    const file = join(t.testdir({ 'deployment.yaml': manifest }), 'deployment.yaml')
    const options = ['--local', '-f', file, '-o', 'yaml', image]
    const [deployment] = loadAll(await run('kubectl', 'set', 'image', ...options))
    const [, newImage] = image.split('=')
    const databaseUrl = {
      name: 'DATABASE_URL_FILE',
      value: '/run/secrets/receivables/database_url',
    }
    matches(t, deployment, {
      spec: {
        template: {
          spec: {
            initContainers: [
              { args: ['backend/cli.ts', 'migrate'], image: newImage, env: [databaseUrl] },
            ],
            containers: [{ image: newImage }],
          },
        },
      },
    })
  },
)
