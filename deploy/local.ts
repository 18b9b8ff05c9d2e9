/**
 * `npm start`: the whole service on this machine, without any other server: a backend on SQLite, a
 * gateway that keeps the rate limit itself (or in Redis where REDIS_URL is set), a demo account. For
 * trying it out; operators run the two processes on their own.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { parseEnv, promisify, styleText } from 'node:util'

const root = join(import.meta.dirname, '..')
/** What the command line prints for `demo`. */
interface Demo {
  readonly account: { readonly id: string; readonly name: string }
  readonly logins: readonly { role: string; email: string }[]
  readonly key: { readonly secret: string; readonly prefix: string }
  /** An invoice on which something is still owed. */
  readonly invoice: { readonly id: string; readonly currency: string }
}

const dataDir = resolve(process.env['DATA_DIR'] || join(root, 'data'))
const children: ChildProcess[] = []
let stopping = false

process.on('SIGINT', stop)
process.on('SIGTERM', stop)

const publicPort = await choosePort(process.env['GATEWAY_PORT'] || '8080')
const env: NodeJS.ProcessEnv = {
  ...readOrMakeSecrets(),
  ...process.env,
  DATA_DIR: dataDir,
  UV_THREADPOOL_SIZE: '16',
  GATEWAY_PORT: publicPort,
  BASE_URL: process.env['BASE_URL'] || `http://127.0.0.1:${publicPort}`,
  // On a terminal people want to see what they asked for, not every call.
  LOG_LEVEL: process.env['LOG_LEVEL'] || 'warn',
}
const backendPort = await start('backend', {})
const [demo, gatewayPort] = await Promise.all([
  prepareDemo(),
  start('gateway', { BACKEND_URLS: `http://127.0.0.1:${backendPort}` }),
])
// Renders the documentation before a client requests it. The backend logs an error if it fails.
fetch(`http://127.0.0.1:${gatewayPort}/docs`).catch(() => {})
process.stdout.write(renderWelcome(`http://127.0.0.1:${gatewayPort}`, demo))

/** Returns a free port for 0, so that pages can name the address before the gateway listens. */
async function choosePort(wanted: string): Promise<string> {
  if (wanted !== '0') return wanted
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  return typeof address === 'object' ? String(address?.port) : wanted
}

/** Made on the first start, for this machine alone. Real set-ups bring their own. */
function readOrMakeSecrets(): Record<string, string | undefined> {
  const path = join(dataDir, 'secrets.env')
  if (!existsSync(path)) {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    const random = () => randomBytes(33).toString('base64url')
    const lines = [
      `GATEWAY_SECRET=${random()}`,
      `KEY_PEPPER=v1:${random()}`,
      `SECRET_BOX_KEY=${random()}`,
      `DEMO_PASSWORD=${randomBytes(9).toString('base64url')}`,
    ]
    writeFileSync(path, `${lines.join('\n')}\n`, { mode: 0o600 })
  }
  return parseEnv(readFileSync(path, 'utf8'))
}

/** Starts one process of the service; resolves with its port once it listens. */
async function start(name: 'backend' | 'gateway', more: Record<string, string>): Promise<number> {
  const child = spawn(process.execPath, [join(root, name, 'main.ts')], {
    env: { ...env, ...more },
    stdio: ['ignore', 'pipe', 'inherit'],
    // Ctrl-C reaches this process alone; it stops the gateway before the backend.
    detached: true,
  })
  children.push(child)
  child.on('exit', (code) => {
    if (stopping) return
    process.stderr.write(`the ${name} ended (${code ?? 'by a signal'}); stopping\n`)
    process.exitCode = 1
    void stop()
  })
  for await (const line of createInterface({ input: child.stdout })) {
    child.stdout.resume()
    const { listening } = JSON.parse(line)
    return listening.port
  }
  // The exit handler says why.
  return new Promise(() => {})
}

async function prepareDemo(): Promise<Demo> {
  const password = ['--password', env['DEMO_PASSWORD'] ?? '']
  const command = [join(root, 'backend', 'cli.ts'), 'demo', '--json', ...password]
  const { stdout } = await promisify(execFile)(process.execPath, command, { env })
  return JSON.parse(stdout)
}

/** The gateway first, so that its last calls still find the backend. */
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
  const payment = JSON.stringify({
    invoice_id: invoice.id,
    amount: 100,
    currency: invoice.currency,
  })
  return `
${title('Receivables is running.')}

  API        ${url}/api/v1
  Docs       ${url}/docs
  Settings   ${url}/settings
  Account    ${account.name} (${account.id}), with sample data
  Mail       ${env['SMTP_URL'] ? 'is sent by SMTP_URL' : `is written to ${join(dataDir, 'mail')}`}
${logins.map(({ role, email }) => `  ${role.padEnd(10)} ${email}  ${env['DEMO_PASSWORD']}`).join('\n')}

${title('A fresh API key')} with every scope; it is not shown again, and replaces that of the last start:

  ${key.secret}

${title('Try it:')}

  curl -i ${url}/api/v1/me -H "Authorization: Bearer ${key.secret}"

  curl -i ${url}/api/v1/payments -H "Authorization: Bearer ${key.secret}" -H "Content-Type: application/json" -H "Idempotency-Key: ${randomBytes(6).toString('hex')}" -d '${payment}'

Ctrl-C stops it. Data is kept in ${dataDir}.
`
}
