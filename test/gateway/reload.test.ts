/** Operators change secrets and certificates while the gateway runs, and set wrong values. */

import { execFile } from 'node:child_process'
import { createPrivateKey } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { readCertificate, validityWarning } from '../../gateway/downstream/certificate.ts'
import { matches, throwsWith } from '../fixtures/matches.ts'
import { createCertificate } from '../fixtures/servers/certificate.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { GATEWAY_SECRET, startGateway } from '../fixtures/service/gateway.ts'
import type { StartedProcess } from '../fixtures/service/process.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const NEW_SECRET = 'another+gateway+key+0123456789abcdefghij'
const PEPPER = 'v1:pepper+of+the+tests+0123456789abcdefghij'

/** Creates a directory apart from `t.testdir()`, which `startSystem` empties. */
function createDirectory(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'reload-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  return directory
}

/** Sends SIGHUP, and waits until the process logs a line that matches `reported`. */
async function reload(process: StartedProcess, reported: RegExp): Promise<void> {
  const before = process.log().length
  process.signal('SIGHUP')
  await until(() => reported.test(process.log().slice(before)), String(reported))
}

t.test('secrets are rotated in their files without a failed call', async (t) => {
  const directory = createDirectory(t)
  const file = (name: string) => join(directory, name)
  const write = (name: string, text: string) => writeFileSync(file(name), `${text}\n`)
  write('backend', GATEWAY_SECRET)
  write('gateway', GATEWAY_SECRET)
  write('pepper', PEPPER)
  const backendEnv = { GATEWAY_SECRET_FILE: file('backend'), KEY_PEPPER_FILE: file('pepper') }
  const system = await startSystem(t, {
    backends: 1,
    gatewayEnv: { GATEWAY_SECRET: '', GATEWAY_SECRET_FILE: file('gateway') },
    backendEnv: { GATEWAY_SECRET: '', KEY_PEPPER: '', ...backendEnv },
  })
  const [gateway] = system.gateways
  if (gateway === undefined) throw new Error('no gateway')
  const accountId = await system.operator.createAccount()
  const me = async (key: string) => (await call(`${system.url}/api/v1/me`, { key })).status
  const expectService = async () => {
    // A new key causes a look-up, which must be signed.
    t.equal(await me((await system.operator.issueKey(accountId)).secret), 200)
    t.equal((await call(`${system.url}/settings/login`)).status, 200)
  }
  await expectService()
  write('backend', `${GATEWAY_SECRET},${NEW_SECRET}`)
  await reload(system.backend, /"changed":\["GATEWAY_SECRET"\].*"reloaded"/)
  await expectService()
  write('gateway', NEW_SECRET)
  await reload(gateway, /"reloaded"/)
  await expectService()
  write('backend', NEW_SECRET)
  await reload(system.backend, /"reloaded"/)
  await expectService()

  write('pepper', `v2:${NEW_SECRET},${PEPPER}`)
  await reload(system.backend, /"changed":\["KEY_PEPPER"\]/)
  const env = { ...process.env, ...system.env, KEY_PEPPER: '', ...backendEnv }
  const args = ['keys', 'issue', '--account', accountId, '--name', 'ERP', '--json']
  const command = ['backend/cli.ts', ...args, '--scopes', 'debtors:read']
  const issued = await promisify(execFile)(process.execPath, command, { env })
  t.equal(await me(JSON.parse(issued.stdout).secret), 200, 'issued with the new pepper')

  write('backend', 'short')
  await reload(system.backend, /"error".*GATEWAY_SECRET must have.*not reloaded/)
  await expectService()
  t.notMatch(gateway.log() + system.backend.log(), NEW_SECRET)
})

t.test('--check-config prints the settings that would be used, or their faults', async (t) => {
  const { cert, key } = await createCertificate(t, 'DNS:api.example')
  const directory = t.testdir({ cert, key, secret: GATEWAY_SECRET })
  const [TLS_CERT, TLS_KEY] = [join(directory, 'cert'), join(directory, 'key')]
  const GATEWAY_SECRET_FILE = join(directory, 'secret')
  const check = (env: Record<string, string>) =>
    promisify(execFile)(process.execPath, ['gateway/main.ts', '--check-config'], { env }).catch(
      (failure: unknown) => failure,
    )
  const good = {
    GATEWAY_SECRET_FILE,
    REDIS_URL: 'redis://user:S3CR3T@127.0.0.1',
    TLS_CERT,
    TLS_KEY,
  }
  matches(t, await check({ ...good, TRUST_PROXIES: '1' }), {
    stdout: new RegExp(
      [
        `GATEWAY_SECRET=\\[read from ${GATEWAY_SECRET_FILE}\\]`,
        'REDIS_URL=\\[set\\]',
        `TLS_CERT=${TLS_CERT}`,
        'DRAIN_TIMEOUT_MS=10000',
        '# Redis is 127.0.0.1:6379, database 0, as user.',
        '# The certificate covers DNS:api.example and expires on 20\\d\\d-',
        '# TRUST_PROXIES is not a setting of this process',
      ].join('[^]*'),
    ),
  })
  const wrong = { ...good, TLS_KEY: '/nowhere', DRAIN_TIMEOUT_MS: '1', GATEWAY_PROT: '1' }
  matches(t, await check(wrong), {
    code: 2,
    stderr: /TLS_KEY names a file .* ENOENT.*\n.*DRAIN_TIMEOUT_MS must be.*\n.*GATEWAY_PROT is not/,
  })
})

t.test('a certificate is compared with its private key before it is used', async (t) => {
  const { cert, key } = await createCertificate(t, 'DNS:api.example')
  const other = await createCertificate(t, 'DNS:other.example')
  const read = readCertificate(`${cert}${other.cert}`, key)
  matches(t, read, { names: 'DNS:api.example', validFrom: Number, expiresAt: Number })
  t.equal(readCertificate(undefined, undefined), undefined)
  const encryption = {
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'x',
  } as const
  const encrypted = createPrivateKey(key).export(encryption).toString()
  for (const [certificate, privateKey, message] of [
    [cert, undefined, /TLS_KEY is not/],
    [undefined, key, /TLS_CERT is not/],
    [cert, other.key, /TLS_KEY is not the private key of the first certificate/],
    ['junk', key, /TLS_CERT cannot be used/],
    [cert, 'junk', /TLS_KEY cannot be used/],
    // Regression: the error was “interrupted or cancelled”.
    [cert, encrypted, /TLS_KEY needs a passphrase/],
    [`${cert}-----BEGIN CERTIFICATE-----\njunk`, key, /TLS_CERT cannot be used/],
  ] as const) {
    throwsWith(t, () => readCertificate(certificate, privateKey), {
      name: 'SettingsError',
      message,
    })
  }
})

t.test(
  'operators are warned if clients reject a certificate because of its dates, or soon will',
  async (t) => {
    const day = 24 * 3_600_000
    const [validFrom, expiresAt] = [Date.UTC(2026, 0), Date.UTC(2026, 3)]
    const warningAt = (now: number) => validityWarning({ validFrom, expiresAt }, now)
    t.equal(warningAt(expiresAt - 8 * day), undefined)
    t.equal(
      warningAt(expiresAt - 6 * day),
      'the TLS certificate expires on 2026-04-01T00:00:00.000Z',
    )
    t.equal(warningAt(expiresAt + day), 'the TLS certificate expired on 2026-04-01T00:00:00.000Z')
    // Regression: nothing warned about a certificate that clients do not accept yet.
    t.equal(
      warningAt(validFrom - day),
      'the TLS certificate is not valid before 2026-01-01T00:00:00.000Z',
    )
  },
)

t.test('a drain that reaches its deadline ends with exit code 1', async (t) => {
  const backend = await startCapturingBackend(t)
  const key = backend.issue()
  const env = { DRAIN_TIMEOUT_MS: '1000', GATEWAY_UPSTREAM_TIMEOUT_MS: '60000' }
  const gateway = await startGateway(t, backend.url, env)
  backend.respondWith(() => {})
  const hanging = t.rejects(call(`${gateway.url}/api/v1/debtors`, { key }))
  await until(() => backend.requests.length === 1, 'the backend has the call')
  t.equal(await gateway.stop(), 1)
  matches(t, gateway.log(), /"timeoutMs":1000,"msg":"drain took too long"/)
  await hanging
})

t.test('neither calls nor a drain wait for a trace collector that hangs', async (t) => {
  const backend = await startCapturingBackend(t)
  const key = backend.issue()
  const hanging = createServer().listen(0, '127.0.0.1')
  t.teardown(() => hanging.close())
  await until(() => hanging.listening, 'the collector listens')
  const address = hanging.address()
  const port = typeof address === 'object' ? address?.port : 0
  const gateway = await startGateway(t, backend.url, {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
  })
  const times: number[] = []
  for (let calls = 0; calls < 20; calls++) {
    const from = performance.now()
    t.equal((await call(`${gateway.url}/api/v1/debtors`, { key })).status, 200)
    times.push(performance.now() - from)
  }
  t.ok(
    Math.min(...times) < 1_000,
    'the fastest call does not wait 5 s for the export; a busy machine delays some calls',
  )
  t.equal(await gateway.stop(), 0)
})
