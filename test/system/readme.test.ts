/**
 * Runs the commands of README.md, docs/settings-api.md and docs/cli.md, in their order, against the service that
 * `npm start` starts. A value that the reader fills in ends in `…`, and an earlier command prints it.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { containing, matches } from '../fixtures/matches.ts'
import { PNG } from '../fixtures/reminders/images.ts'
import { listen } from '../fixtures/servers/listen.ts'
import { reservePort } from '../fixtures/servers/ports.ts'
import { call } from '../fixtures/service/call.ts'

const LEDGER = `invoiceNumber,customerID,InvoiceDate,DueDate,InvoiceAmount,SettledDate
0001,C 1,1/2/2013,2/1/2013,55.94,2/3/2013
0002,C 2,1/3/2013,2/2/2013,61.74,
`

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
const pages = [readme, ...['settings-api', 'cli'].map(readGuide)]
const directory = t.testdir({ 'ledger.csv': LEDGER, 'acme.png': PNG })
const env = { PATH: process.env['PATH'] ?? '', DATA_DIR: join(directory, 'data') }

/**
 * Commands that are not run, because they install packages, start the service again, or need another server or a file
 * that was imported in Settings.
 */
const NOT_RUN = /^npm (?:ci|test|start)\b|database copy |imports take-back /

/** The commands of all code blocks. A command that continues on the next line is joined. */
const commands = pages
  .flatMap((page) => [...page.matchAll(/^```\n(.*?)^```$/gms)])
  .flatMap(([, block = '']) => block.replaceAll('\\\n', ' ').split('\n'))
  .filter((line) => line !== '' && !NOT_RUN.test(line))

function readGuide(name: string): string {
  return readFileSync(join(ROOT, `docs/${name}.md`), 'utf8')
}

/** Runs `npm start` on free ports. Resolves with its output. */
async function start(): Promise<string> {
  const ports = Object.fromEntries(
    ['GATEWAY', 'BACKEND'].flatMap((name) => [
      [`${name}_PORT`, '0'],
      [`${name}_OPERATIONS_PORT`, '0'],
    ]),
  )
  const child = spawn('npm', ['start'], { env: { ...env, ...ports }, detached: true })
  t.teardown(() => end(child))
  const printed: string[] = []
  for await (const chunk of child.stdout) {
    printed.push(String(chunk))
    if (printed.join('').includes('Ctrl-C stops it.')) return printed.join('')
  }
  throw new Error(`npm start ended: ${printed.join('')}`)
}

/** Interrupts the whole process group, as Ctrl-C does. */
async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined) return
  const closed = once(child, 'close')
  process.kill(-child.pid, 'SIGINT')
  child.stdout?.resume()
  await closed
}

const welcome = await start()
const [url = ''] = /http:\/\/127\.0\.0\.1:\d+/.exec(welcome) ?? []
const known = new Map<string, string>([
  ['KEY', /rcv_\w+/.exec(welcome)?.[0] ?? ''],
  ['acct', /acct_\w{26}/.exec(welcome)?.[0] ?? ''],
  ['password', /admin@demo\.example {2}(\S+)/.exec(welcome)?.[1] ?? ''],
])
/** Matches commands whose effect a shell keeps for later commands. */
const KEPT = /^(?:export |\w+\(\) \{)/
const keptLines: string[] = []

/** Runs the command with the values that earlier commands printed. Resolves with its output. */
async function follow(command: string): Promise<string> {
  const filled = command
    .replaceAll('http://127.0.0.1:8080', url)
    .replace('INVOICE=inv_…', () => `INVOICE=${value('inv')}`)
    .replace(/^export (\w+)=\S*….*$/, (_, name: string) => `export ${name}=${value(name)}`)
    .replace(/"password": "…"/, `"password": "${value('password')}"`)
    .replace(/ --to ([\w.-]+)$/, (_, file: string) => ` --to ${join(directory, file)}`)
    .replace(/ (acme\.png|firm-en\.json)$/, (_, file: string) => ` ${join(directory, file)}`)
    .replaceAll(/\b(key|acct|deb|pay|inv)_…/g, (_, name: string) => value(name))
    .replace(' ledger.csv ', ` ${join(directory, 'ledger.csv')} --base-url ${url} `)
    // Without a terminal, the command reads the password from standard input.
    .replace(/^.* users create .*$/, "echo 'a long enough password' | $& --password-stdin")
    // Only one command is run by npm, because npm takes longer to start than most commands take to run.
    .replace(/npm run -s cli -- (?!--help)/, `node ${join(ROOT, 'backend/cli.ts')} `)
  t.notMatch(filled, '…', command)
  if (KEPT.test(filled)) {
    keptLines.push(filled)
    return ''
  }
  const script = [...keptLines, filled].join('\n').replaceAll(' jar', ` ${join(directory, 'jar')}`)
  const { stdout } = await run('sh', ['-euc', script], { env, timeout: 120_000 })
  return stdout
}

function value(name: string): string {
  const found = known.get(name) ?? ''
  t.not(found, '', `${name} is known by now`)
  return found
}

/**
 * Keeps the id of the object that the command created, which is the first id in its output: in JSON, at the beginning
 * of a line, or after "Issued key".
 */
function keepIds(command: string, printed: string): void {
  const [, id = ''] =
    /(?:"id":\s*"|^|Issued key )((?:deb|inv|pay|key|acct)_\w{26})\b/m.exec(printed) ?? []
  const [kind = ''] = id.split('_')
  if (/^curl .* -d |create|issue|"scopes"/.test(command)) known.set(kind, id)
  const [, token] = /"csrf_token":\s*"([^"]+)"/.exec(printed) ?? []
  if (token !== undefined) known.set('CSRF', token)
}

t.test('npm start prints two commands that work when pasted', async (t) => {
  const lines = welcome.split('\n').filter((line) => line.startsWith('  curl '))
  t.equal(lines.length, 2)
  const statuses = ['200 OK', '201 Created']
  for (const [index, line] of lines.entries()) {
    const { stdout } = await run('sh', ['-euc', line], { env })
    matches(t, stdout, containing(`HTTP/1.1 ${statuses[index]}`))
  }
})

t.test(
  'the receiver in the guide to webhooks verifies a webhook of the demo account',
  async (t) => {
    const [receiver = ''] = /(?<=```js\n).*?(?=```)/s.exec(readGuide('webhooks')) ?? []
    const port = await reservePort()
    const accept = { accept: 'application/json' }
    const login = await call(`${url}/settings/login`, {
      headers: accept,
      body: { email: 'admin@demo.example', password: value('password') },
    })
    const cookie = String(login.headers['set-cookie']).split(';')[0] ?? ''
    const endpoint = await call(`${url}/settings/webhook-endpoints`, {
      headers: { ...accept, cookie, 'x-csrf-token': login.json.csrf_token },
      body: { url: `http://127.0.0.1:${port}/`, events: ['debtor.created'] },
    })
    t.equal(endpoint.status, 201, endpoint.text)
    const file = join(t.testdir({ 'receiver.mjs': receiver }), 'receiver.mjs')
    const child = spawn(process.execPath, [file], {
      env: { PORT: String(port), WEBHOOK_SECRET: endpoint.json.secret },
    })
    t.teardown(() => child.kill('SIGKILL'))
    await call(`${url}/api/v1/debtors`, { key: value('KEY'), body: { name: 'Globex' } })
    // If a delivery comes before the receiver listens, it is repeated after 5 seconds.
    const [printed] = await once(child.stdout, 'data')
    matches(t, String(printed), /^evt_\w{26} debtor\.created\n$/)
  },
)

t.ok(commands.length > 30)
t.ok(commands.some((command) => command.startsWith('request ')))

for (const command of commands) {
  t.test(`the command succeeds: ${command}`, async (t) => {
    const printed = await follow(command)
    keepIds(command, printed)
    if (command.startsWith('curl')) matches(t, printed, /^HTTP\/1\.1 20[01] /)
    else if (command.startsWith('request ')) t.notMatch(printed, /"code":/)
    else if (command.includes(' import ')) matches(t, printed, /agree/i)
    else if (!KEPT.test(command) && !command.includes(' > ')) t.not(printed, '')
  })
}

t.test('npm start names the ports that other processes use', async (t) => {
  const { port } = new URL(url)
  const failsToStart = async (ports: Readonly<Record<string, string>>, stderr: string) => {
    const free = {
      BACKEND_PORT: '0',
      GATEWAY_OPERATIONS_PORT: '0',
      BACKEND_OPERATIONS_PORT: '0',
    }
    const started = run('npm', ['-s', 'start'], { env: { ...env, ...free, ...ports } })
    const { code, stderr: printed } = await started.catch((error) => error)
    t.strictSame({ code, stderr: printed }, { code: 2, stderr })
  }
  await failsToStart(
    { GATEWAY_PORT: port },
    `Port ${port} is in use. Stop the process that uses it, or run: GATEWAY_PORT=0 npm start\n`,
  )
  const otherPort = await listen(t, createServer())
  await failsToStart(
    { GATEWAY_PORT: port, BACKEND_PORT: String(otherPort) },
    `The ports ${port}, ${otherPort} are in use. Stop the processes that use them, or run: GATEWAY_PORT=0 BACKEND_PORT=0 npm start\n`,
  )
})

t.test('every picture and file that the README names exists', async (t) => {
  const targets = [...readme.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(
    ([, target = '']) => target,
  )
  const files = targets.filter((target) => !target.startsWith('http'))
  t.ok(files.length > 10)
  for (const file of files) t.ok(existsSync(join(ROOT, file)), `${file} exists`)
})
