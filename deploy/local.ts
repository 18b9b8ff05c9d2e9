/**
 * `npm start` runs the whole service on this machine, without any other server: a backend on SQLite, a gateway that
 * counts calls itself (or in Redis if REDIS_URL is set), and a demo account. It is for trying the service out.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, renameSync, writeFileSync } from 'node:fs'
import { createServer, isIPv6 } from 'node:net'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify, styleText } from 'node:util'
import { createPrivateDirectory } from '../shared/process/directories.ts'
import { readEnvironmentFile } from '../shared/process/settings.ts'

const HELP = `Usage:
  npm start      runs the whole service on this machine, with a demo account; Ctrl-C stops it

Settings, all optional:
  GATEWAY_PORT   the port of the API, the documentation and Settings (8080; 0 chooses a free one)
  DATA_DIR       the directory for records, secrets, and mail that is written to files (./data)
  REDIS_URL      the Redis that counts calls; without it the gateway counts them itself
  SMTP_URL       the mail server; without it mail is written to files in DATA_DIR
  LOG_LEVEL      the least severe level that is logged (warn); info logs every call
For all other settings, run npm run gateway -- --help and npm run backend -- --help.
`

const PORTS = {
  GATEWAY_PORT: '8080',
  BACKEND_PORT: '8081',
  GATEWAY_OPERATIONS_PORT: '8082',
  BACKEND_OPERATIONS_PORT: '8083',
}

const root = join(import.meta.dirname, '..')
/** The output of the command `demo`. */
interface Demo {
  readonly account: { readonly id: string; readonly name: string }
  readonly logins: readonly { role: string; email: string }[]
  readonly key: { readonly secret: string; readonly prefix: string }
  /** An invoice on which something is still owed; null if there is none. */
  readonly invoice: { readonly id: string; readonly currency: string } | null
}

// White space around a value is ignored, as in the gateway and the backend.
for (const [name, value = ''] of Object.entries(process.env)) process.env[name] = value.trim()

const dataDir = resolve(process.env['DATA_DIR'] || join(root, 'data'))
const children: ChildProcess[] = []
let stopping = false

process.on('SIGINT', stop)
process.on('SIGTERM', stop)
// A terminal that is closed sends this signal. The children, which are in process groups of their own, do not get it.
process.on('SIGHUP', stop)
// Without this, the children would continue if this process ended because of an error.
process.on('exit', () => {
  for (const child of children) child.kill('SIGTERM')
})

const [option] = process.argv.slice(2)
if (option === '--help') {
  process.stdout.write(HELP)
  process.exit()
}
if (option !== undefined) exitWithError(`Unknown option ${option}.\n\n${HELP}`)
const ports = await choosePorts()
const scheme = process.env['TLS_CERT'] ? 'https' : 'http'
const env: NodeJS.ProcessEnv = {
  ...process.env,
  ...withoutOverridden(readSecretsOrExit()),
  DATA_DIR: dataDir,
  // The backend needs these two variables; "Sizing" in docs/operations.md says why.
  UV_THREADPOOL_SIZE: '16',
  MALLOC_MMAP_THRESHOLD_: '131072',
  ...ports,
  BASE_URL: process.env['BASE_URL'] || `${scheme}://${hostOf('GATEWAY')}:${ports.GATEWAY_PORT}`,
  // Allows webhooks to any address, because people who try the service usually run the receiver on this machine. This
  // is safe as long as the gateway listens only on 127.0.0.1, because only users of this machine can then add
  // endpoints.
  WEBHOOK_PRIVATE_TARGETS:
    process.env['WEBHOOK_PRIVATE_TARGETS'] || (process.env['GATEWAY_HOST'] ? 'refuse' : 'allow'),
  // With a line for every call, the address and the key that are printed at the start would scroll away.
  LOG_LEVEL: process.env['LOG_LEVEL'] || 'warn',
}
const backend = await start('backend', {})
const backendUrl =
  backend.socket === undefined
    ? `http://${hostOf('BACKEND')}:${backend.port}`
    : `unix:${backend.socket}`
const [demo, gateway] = await Promise.all([
  prepareDemo(),
  start('gateway', { BACKEND_URLS: backendUrl }),
])
const url = `${scheme}://${hostOf('GATEWAY')}:${gateway.port}`
// Makes the backend render the documentation before a client requests it. If the request fails, e.g. because of a
// self-signed certificate, the first client waits for the rendering.
fetch(`${url}/docs`).catch(() => {})
process.stdout.write(renderWelcome(url, demo))

/**
 * Must be called only before any process is started: unlike `stop`, it does not wait until the processes have ended.
 */
function exitWithError(reason: string): never {
  process.stderr.write(`${reason.trimEnd()}\n`)
  process.exit(2)
}

/** Returns the host for the URL at which programs on this machine reach the process. */
function hostOf(name: 'BACKEND' | 'GATEWAY'): string {
  const host = listenHost(`${name}_HOST`)
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return isIPv6(host) ? `[${host}]` : host
}

/** An IPv6 address may have the brackets that it has in URLs. */
function listenHost(setting: string): string {
  return (process.env[setting] || '127.0.0.1').replace(/^\[(.+)\]$/, '$1')
}

/**
 * Resolves with the ports of both processes. Exits if a port is invalid or in use. If `GATEWAY_PORT` is 0, chooses a
 * free port, because the backend starts before the gateway, and needs the gateway's address for its pages.
 */
async function choosePorts() {
  const ports = { ...PORTS }
  const inUse: PortInUse[] = []
  for (const name of Object.keys(PORTS) as (keyof typeof PORTS)[]) {
    const wanted = process.env[name] || PORTS[name]
    const port = /^\d+$/.test(wanted) ? Number(wanted) : Number.NaN
    if (!(port <= 65_535)) exitWithError(`${name} must be a port from 0 to 65535, not "${wanted}".`)
    const host = listenHost(name.replace('PORT', 'HOST'))
    const mustBeFree = port !== 0 && !(name === 'BACKEND_PORT' && process.env['BACKEND_SOCKET'])
    if (mustBeFree && !(await isPortFree(port, host))) inUse.push({ name, port })
    const mustBeKnown = port === 0 && name === 'GATEWAY_PORT'
    ports[name] = mustBeKnown ? String(await chooseFreePort(host)) : wanted
  }
  if (inUse.length > 0) exitWithError(describePortsInUse(inUse))
  return ports
}

interface PortInUse {
  readonly name: string
  readonly port: number
}

function describePortsInUse(inUse: readonly PortInUse[]): string {
  const ports = inUse.map(({ port }) => port).join(', ')
  const command = `${inUse.map(({ name }) => `${name}=0`).join(' ')} npm start`
  return inUse.length === 1
    ? `Port ${ports} is in use. Stop the process that uses it, or run: ${command}`
    : `The ports ${ports} are in use. Stop the processes that use them, or run: ${command}`
}

/** Returns false only if the port is in use. The process that will listen on the port reports any other fault. */
async function isPortFree(port: number, host: string): Promise<boolean> {
  const probe = createServer().listen(port, host)
  try {
    await once(probe, 'listening')
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')
  }
  await new Promise((resolve) => probe.close(resolve))
  return true
}

/**
 * Resolves with a free port below the range from which systems choose when a process listens on port 0. Otherwise,
 * another process could get the port before the gateway listens.
 */
async function chooseFreePort(host: string): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000)
    if (await isPortFree(port, host)) return port
  }
}

function readSecretsOrExit(): Record<string, string | undefined> {
  try {
    return readOrMakeSecrets()
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    exitWithError(`The directory ${dataDir} of DATA_DIR cannot be used: ${reason}`)
  }
}

/** Returns the secrets of this machine; creates them at the first start. */
function readOrMakeSecrets(): Record<string, string | undefined> {
  const path = join(dataDir, 'secrets.env')
  if (!existsSync(path)) {
    createPrivateDirectory(dataDir)
    const random = () => randomBytes(33).toString('base64url')
    const lines = [
      `GATEWAY_SECRET=${random()}`,
      `KEY_PEPPER=v1:${random()}`,
      `SECRET_BOX_KEY=${random()}`,
      `DEMO_PASSWORD=${randomBytes(9).toString('base64url')}`,
    ]
    // The file gets its final name only when it is complete. Otherwise, an interrupted start could leave a file without
    // some secrets, and no later start would succeed.
    writeFileSync(`${path}.partial`, `${lines.join('\n')}\n`, { mode: 0o600 })
    renameSync(`${path}.partial`, path)
  }
  return readEnvironmentFile(path)
}

/** Omits the secrets for which the environment sets `NAME` or `NAME_FILE`. */
function withoutOverridden(secrets: Record<string, string | undefined>): NodeJS.ProcessEnv {
  const isOverridden = (name: string) => process.env[name] || process.env[`${name}_FILE`]
  return Object.fromEntries(Object.entries(secrets).filter(([name]) => !isOverridden(name)))
}

interface Listening {
  readonly port?: number
  /** The path of the Unix socket on which the backend listens instead of a port. */
  readonly socket?: string
}

/** Resolves when the process listens. */
async function start(
  name: 'backend' | 'gateway',
  settings: Record<string, string>,
): Promise<Listening> {
  const child = spawn(process.execPath, [join(root, name, 'main.ts')], {
    env: { ...env, ...settings },
    stdio: ['ignore', 'pipe', 'inherit'],
    // In a process group of its own, the child gets no signal from Ctrl-C, so that `stop` can end the gateway
    // first.
    detached: true,
  })
  children.push(child)
  child.on('exit', (code) => {
    if (stopping) return
    const reason = code === null ? 'a signal' : `exit code ${code}`
    process.stderr.write(`The ${name} exited (${reason}), so the other processes are stopped.\n`)
    process.exitCode = 1
    void stop()
  })
  for await (const line of createInterface({ input: child.stdout })) {
    child.stdout.resume()
    return JSON.parse(line).listening
  }
  // The exit handler reports the reason.
  return new Promise(() => {})
}

async function prepareDemo(): Promise<Demo> {
  // With the equals sign, a password may begin with a hyphen.
  const password = `--password=${env['DEMO_PASSWORD'] ?? ''}`
  const command = [join(root, 'backend', 'cli.ts'), 'demo', '--json', password]
  try {
    const { stdout } = await promisify(execFile)(process.execPath, command, { env })
    return JSON.parse(stdout)
  } catch (error) {
    // The message of the error contains the password.
    const reason = error instanceof Error && 'stderr' in error ? error.stderr : error
    process.stderr.write(`The demo account could not be prepared: ${String(reason).trimEnd()}\n`)
    await stop()
    process.exit(1)
  }
}

/** Stops the gateway first, so that its last calls still reach the backend. */
async function stop(): Promise<void> {
  if (stopping) return
  stopping = true
  for (const child of children.toReversed()) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    const exited = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGTERM')
    await exited
  }
}

function renderWelcome(url: string, { account, logins, key, invoice }: Demo): string {
  const title = (text: string) => styleText('bold', text, { stream: process.stdout })
  return `
${title('Receivables is running.')}

  API        ${url}/api/v1
  Docs       ${url}/docs
  Settings   ${url}/settings
  Account    ${account.name} (${account.id}), with sample data
  Mail       ${env['SMTP_URL'] ? 'is sent to the server of SMTP_URL' : `is written to ${join(dataDir, 'mail')}`}
${logins.map(({ role, email }) => `  ${role.padEnd(10)} ${email}  ${env['DEMO_PASSWORD']}`).join('\n')}

${title('A new API key')} with every scope. It is not shown again, and replaces the key of the previous start:

  ${key.secret}

${title('Try it:')}

  curl -i ${url}/api/v1/me -H "Authorization: Bearer ${key.secret}"
${invoice === null ? '' : renderPaymentCall(url, key.secret, invoice)}
Ctrl-C stops it. Data is kept in ${dataDir}.
`
}

function renderPaymentCall(
  url: string,
  secret: string,
  { id, currency }: NonNullable<Demo['invoice']>,
): string {
  const payment = JSON.stringify({ invoice_id: id, amount: 100, currency })
  const idempotencyKey = randomBytes(6).toString('hex')
  return `
  curl -i ${url}/api/v1/payments -H "Authorization: Bearer ${secret}" -H "Content-Type: application/json" -H "Idempotency-Key: ${idempotencyKey}" -d '${payment}'
`
}
