/**
 * What the README tells to run is run, in its order, against what `npm start` starts. A value that the
 * reader fills in, which ends in `…`, is taken from what was printed before.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const LEDGER = `invoiceNumber,customerID,InvoiceDate,DueDate,InvoiceAmount,SettledDate
0001,C 1,1/2/2013,2/1/2013,55.94,2/3/2013
0002,C 2,1/3/2013,2/2/2013,61.74,
`

const run = promisify(execFile)
const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const directory = t.testdir({ 'ledger.csv': LEDGER })
const env = { PATH: process.env['PATH'] ?? '', DATA_DIR: join(directory, 'data') }

/** The lines of the code blocks of a section, each command whole. */
function commandsOf(section: string): string[] {
  const [, text = ''] = readme.split(new RegExp(`^##+ ${section}\n`, 'm'))
  const [own = ''] = text.split(/^##+ /m)
  return [...own.matchAll(/^```\n(.*?)^```$/gms)]
    .flatMap(([, block = '']) => block.replaceAll('\\\n', ' ').split('\n'))
    .filter((line) => line !== '')
}

/** `npm start`, on ports that are free. Resolves with what it prints. */
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

/** As Ctrl-C does: the whole group. */
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
  ['password', /admin@demo\.example {2}(\S+)/.exec(welcome)?.[1] ?? ''],
])
/** What the shell keeps between two commands. */
const kept: string[] = []

/** Resolves with what the command printed. */
async function follow(command: string): Promise<string> {
  const filled = command
    .replaceAll('http://127.0.0.1:8080', url)
    .replace(/^export (\w+)=\S*….*$/, (_, name: string) => `export ${name}=${value(name)}`)
    .replace(/"password": "…"/, `"password": "${value('password')}"`)
    .replace(/ --to (\S+)$/, (_, file: string) => ` --to ${join(directory, file)}`)
    .replace(/\b(key|acct|deb|pay)_…/, (_, name: string) => value(name))
    .replace(' ledger.csv ', ` ${join(directory, 'ledger.csv')} --base-url ${url} `)
  t.notMatch(filled, '…', command)
  if (/^(?:export|alias) /.test(filled)) {
    kept.push(filled)
    return ''
  }
  const script = [...kept, filled].join('\n').replaceAll(' jar', ` ${join(directory, 'jar')}`)
  const { stdout } = await run('sh', ['-euc', script], { env, timeout: 60_000 })
  return stdout
}

function value(name: string): string {
  const found = known.get(name) ?? ''
  t.not(found, '', `${name} is known by now`)
  return found
}

function note(printed: string): void {
  const id = /"id":\s*"((?:inv|key|deb|pay)_\w+)"|\b(acct_\w{26})\b/.exec(printed)
  const found = id?.[1] ?? id?.[2] ?? ''
  if (found.startsWith('inv_')) known.set('INVOICE', found)
  if (found.startsWith('key_')) known.set('key', found)
  if (found.startsWith('deb_')) known.set('deb', found)
  if (found.startsWith('pay_')) known.set('pay', found)
  if (found.startsWith('acct_')) known.set('acct', found)
  const [, token] = /"csrf_token":\s*"([^"]+)"/.exec(printed) ?? []
  if (token !== undefined) known.set('CSRF', token)
}

t.test('npm start prints two calls that work when pasted', async (t) => {
  const lines = welcome.split('\n').filter((line) => line.startsWith('  curl '))
  t.equal(lines.length, 2)
  const statuses = ['200 OK', '201 Created']
  for (const [at, line] of lines.entries()) {
    const { stdout } = await run('sh', ['-euc', line], { env })
    t.match(stdout, `HTTP/1.1 ${statuses[at]}`)
  }
})

t.test('what the README lets its reader try works', async (t) => {
  for (const command of commandsOf('Try it')) {
    const printed = await follow(command)
    note(printed)
    if (command.startsWith('curl')) t.match(printed, /^HTTP\/1\.1 20[01] /, command)
    if (command.includes(' import ')) t.match(printed, /agree/i, command)
  }
})

t.test('what it lets scripts do in Settings works', async (t) => {
  for (const command of commandsOf('Customers, reminders, keys and people')) {
    const printed = await follow(command)
    note(printed)
    if (command.startsWith('ask')) t.notMatch(printed, /"code":/, command)
  }
})

t.test('what it lets operators run works, and each is understood', async (t) => {
  for (const command of commandsOf('Operate')) {
    const printed = await follow(command)
    note(printed.replace(/^(key_\w+)/m, '"id": "$1"'))
    t.not(printed, '', command)
  }
})

t.test('every picture and every file that it names is there', async (t) => {
  for (const [, target = ''] of readme.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)) {
    const isOurs = !target.startsWith('http')
    if (isOurs) t.ok(existsSync(new URL(`../../${target}`, import.meta.url)), target)
  }
})
