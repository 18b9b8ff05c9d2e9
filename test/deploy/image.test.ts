/**
 * Builds the image of deploy/Dockerfile, and runs every service of deploy/compose.yaml with podman-compose:
 * two gateways, two backends and the command line, on PostgreSQL and Redis. Images that are built from
 * Debian packages replace the public images that both files name.
 */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { buildImage, imageProblem, startContainerHost } from '../fixtures/servers/containers.ts'
import { until } from '../fixtures/service/until.ts'

const root = join(import.meta.dirname, '..', '..')

t.setTimeout(1_200_000)

const skip = imageProblem()

t.test('the image builds, and Compose runs two gateways and two backends', { skip }, async (t) => {
  const from = performance.now()
  await buildImage()
  t.comment(`built in ${((performance.now() - from) / 1000).toFixed(0)} s`)
  const host = await startContainerHost(t)

  await t.test('the image contains no npm, compilers, TypeScript or tap', async (t) => {
    const [image] = JSON.parse(await host.podman('image', 'inspect', 'receivables'))
    matches(t, image, {
      User: '10001:10001',
      Config: { Entrypoint: ['node'], Cmd: ['backend/main.ts'], StopSignal: 'SIGTERM' },
      Healthcheck: { Test: ['CMD', 'node', 'deploy/health.ts'] },
    })
    const script = `command -v npm npx yarn corepack gcc g++ make python3
      find /app/node_modules -name '*.[oa]' -o -name typescript -o -name tap
      find / -xdev -name '*.node' 2> /dev/null
      du -sm /app /app/node_modules /usr/local/bin | tr '\\n' ' '`
    const options = ['run', '--rm', '--entrypoint', 'sh', 'receivables', '-c', script]
    const lines = (await host.podman(...options)).trim().split('\n')
    const sizes = lines.pop()
    t.strictSame(
      lines,
      ['/app/node_modules/sqlite3/build/Release/node_sqlite3.node'],
      'only the native addon is found: npm, compilers, TypeScript and tap are absent',
    )
    t.comment(`${(image.Size / 1e6).toFixed(0)} MB; in MB: ${sizes}`)
  })

  // The secrets of this run are written to a copy of deploy/, not to the work tree.
  const directory = t.testdir()
  cpSync(join(root, 'deploy'), join(directory, 'deploy'), { recursive: true })
  await host.run(join(root, 'deploy/make-secrets'), join(directory, 'deploy/secrets'))
  const file = join(directory, 'deploy/compose.yaml')
  const compose = (...words: string[]) => host.run('podman-compose', '-f', file, ...words)
  const container = (service: string) => `deploy_${service}_1`
  /** Resolves when the services are healthy. Tests wait, because podman-compose ignores conditions of `depends_on`. */
  const untilHealthy = (...services: string[]) =>
    Promise.all(
      services.map((service) =>
        until(
          async () =>
            (await host.exitCode('podman', 'healthcheck', 'run', container(service))) === 0,
          `${service} is healthy`,
        ),
      ),
    )
  const backends = ['backend-1', 'backend-2']
  const gateways = ['gateway-1', 'gateway-2']
  await compose('up', '-d', 'postgres', 'redis')
  await untilHealthy('postgres', 'redis')
  await compose('up', '-d', ...backends)
  await untilHealthy(...backends)
  await compose('up', '-d', ...gateways)
  await untilHealthy(...gateways)

  const cli = async (...words: string[]) => {
    const printed = await compose('run', '--rm', '-T', 'operator', ...words, '--json')
    return JSON.parse(printed.split('\n').findLast((line) => line.startsWith('{')) ?? '')
  }
  const account = await cli('accounts', 'create', '--name', 'Acme')
  const key = await cli(
    'keys',
    'issue',
    '--account',
    account.id,
    '--name',
    'ERP',
    '--scopes',
    'debtors:read,debtors:write',
  )
  const curl = (port: number, path: string, ...more: string[]) =>
    host.run(
      'curl',
      '-s',
      '-i',
      '-m',
      '20',
      `http://127.0.0.1:${port}${path}`,
      '-H',
      `Authorization: Bearer ${key.secret}`,
      ...more,
    )

  await t.test('two gateways share the rate limit and serve the same records', async (t) => {
    matches(
      t,
      await curl(8080, '/api/v1/me'),
      /^HTTP\/1\.1 200 OK[\s\S]*x-ratelimit-remaining: 599/i,
    )
    matches(
      t,
      await curl(8090, '/api/v1/me'),
      /^HTTP\/1\.1 200 OK[\s\S]*x-ratelimit-remaining: 598/i,
    )
    const json = ['-H', 'Content-Type: application/json', '-d', '{"name":"Globex"}']
    matches(t, await curl(8080, '/api/v1/debtors', ...json), /^HTTP\/1\.1 201 /)
    matches(t, await curl(8090, '/api/v1/debtors'), /"name":"Globex"/)
    const areDocsServed = async () => (await curl(8080, '/docs')).startsWith('HTTP/1.1 200 ')
    await until(areDocsServed, 'the documentation is served')
  })

  await t.test(
    'each process runs as an unprivileged user, and cannot change files of the image',
    async (t) => {
      for (const service of [...backends, ...gateways]) {
        const inside = (script: string) =>
          host.podman('exec', container(service), 'sh', '-c', script)
        const status = await inside('cat /proc/1/status')
        matches(t, status, /^Uid:\t10001\t10001\t10001\t10001$/m, service)
        matches(t, status, /^CapEff:\t0000000000000000$/m, service)
        matches(t, status, /^CapBnd:\t0000000000000000$/m, service)
        matches(t, status, /^NoNewPrivs:\t1$/m, service)
        t.equal(
          await inside('touch /app/x /etc/x 2>/dev/null || echo refused'),
          'refused\n',
          service,
        )
        const environment = await inside("tr '\\0' '\\n' < /proc/1/environ")
        matches(t, environment, /^RES_OPTIONS=timeout:1 attempts:5$/m, service)
        t.notMatch(
          environment,
          /^(?:GATEWAY_SECRET|KEY_PEPPER|SECRET_BOX_KEY|DATABASE_URL|REDIS_URL)=/m,
        )
      }
    },
  )

  await t.test(
    'while a process drains after SIGTERM, the other one serves all calls',
    async (t) => {
      for (const [service, port] of [
        ['backend-1', 8080],
        ['gateway-1', 8090],
      ] as const) {
        let isOver = false
        const statuses = new Map<string, number>()
        const calling = (async () => {
          while (!isOver) {
            const [, status = ''] = /^HTTP\/1\.1 (\d+)/.exec(await curl(port, '/api/v1/me')) ?? []
            statuses.set(status, (statuses.get(status) ?? 0) + 1)
          }
        })()
        await until(() => (statuses.get('200') ?? 0) > 2, 'more than two calls have succeeded')
        await host.podman('stop', '-t', '15', container(service))
        const exitCode = await host.podman(
          'inspect',
          '--format',
          '{{.State.ExitCode}}',
          container(service),
        )
        t.equal(exitCode, '0\n', `${service} exited by itself`)
        isOver = true
        await calling
        t.strictSame([...statuses.keys()], ['200'], `${service}: ${JSON.stringify([...statuses])}`)
        await host.podman('start', container(service))
        await untilHealthy(service)
      }
    },
  )
})
