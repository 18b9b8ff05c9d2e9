// Runs the shell commands and the programs of guides, and compares the responses with those in the guides.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'
import { type Outcome, startUnreliableProxy } from '../fixtures/servers/unreliable-proxy.ts'
import { call } from '../fixtures/service/call.ts'
import { type PrintedResponse, parseResponse, runCurl } from '../fixtures/service/curl.ts'
import { missingRuntime } from '../fixtures/service/languages.ts'
import { startSystem } from '../fixtures/service/system.ts'

const GUIDES_BASE_URL = 'http://127.0.0.1:8080'
const run = promisify(execFile)
const system = await startSystem(t, { backendEnv: { BASE_URL: GUIDES_BASE_URL } })
const { operator, url } = system

interface Block {
  readonly language: string
  readonly text: string
}

function blocksOf(guide: string): Block[] {
  const text = readFileSync(new URL(`../../docs/${guide}.md`, import.meta.url), 'utf8')
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = '', code = '']) => ({
    language,
    text: code,
  }))
}

/** The values that a reader of the guides fills in. */
interface Reader {
  readonly key: string
  /** A key that has only the scope `debtors:read`. */
  readonly narrowKey: string
  /** The id of an invoice. */
  readonly invoice: string
}

/** Creates an account with a customer, invoices and a key that has made no call yet. */
async function createReader(invoices = 3): Promise<Reader> {
  const account = await operator.createAccount('Acme Ltd')
  const { secret: preparingKey } = await operator.issueKey(account)
  const create = (path: string, body: unknown) =>
    call(`${url}/api/v1/${path}`, { key: preparingKey, body })
  await create('debtors', { name: 'Globex', external_id: 'C-1' })
  const bill = { debtor_external_id: 'C-1', currency: 'EUR', amount: 12_500 }
  const [first] = await Promise.all(
    Array.from({ length: invoices }, () => create('invoices', bill)),
  )
  return {
    key: (await operator.issueKey(account)).secret,
    narrowKey: (await operator.issueKey(account, { scopes: ['debtors:read'] })).secret,
    invoice: first?.json.id,
  }
}

/**
 * Runs the commands of a guide. A value that ends in `…` is replaced by that of the reader or of an earlier response.
 */
async function follow(t: Test, guide: string, reader: Reader): Promise<void> {
  const env: Record<string, string> = { KEY: reader.key }
  const known: Record<string, string> = {
    ...env,
    NARROW: reader.narrowKey,
    INVOICE: reader.invoice,
  }
  let response: PrintedResponse | undefined
  let compared = 0
  for (const { language, text } of blocksOf(guide)) {
    if (language === 'sh') {
      const script = text
        .replaceAll(GUIDES_BASE_URL, url)
        .replace(/^export (\w+)=(\S*…).*$/gm, (_, name: string) => {
          env[name] = known[name] ?? ''
          t.not(env[name], '', `${name} is known by now`)
          return ''
        })
      for (const [, name = '', value = ''] of script.matchAll(/^export (\w+)=(\S+)$/gm)) {
        env[name] = value
      }
      response = script.includes('curl ') ? await runCurl(script, env) : undefined
      if (response?.json?.object === 'invoice') known['INVOICE'] = response.json.id
      if (response?.json?.next_cursor) known['CURSOR'] = response.json.next_cursor
    } else if (language === 'http' && response !== undefined) {
      const shown = parseResponse(text)
      t.equal(response.statusLine, shown.statusLine)
      if (Object.keys(shown.headers).length > 0) {
        matches(t, response.headers, patternOf(shown.headers), `${guide}: headers`)
      }
      if (shown.json !== undefined) {
        matches(t, response.json, patternOf(shown.json), `${guide}: ${shown.statusLine}`)
      }
      compared++
      response = undefined
    }
  }
  t.ok(compared > 0, `${guide} shows ${compared} responses`)
}

/** Returns a pattern with every member that is shown; `…` represents any text. */
function patternOf(shown: unknown): unknown {
  if (typeof shown === 'string') {
    const parts = shown.split('…').map((part) => RegExp.escape(part))
    return new RegExp(`^${parts.join('.+')}$`)
  }
  if (Array.isArray(shown)) return shown.map(patternOf)
  if (typeof shown !== 'object' || shown === null) return shown
  return Object.fromEntries(
    Object.entries(shown).map(([name, member]) => [name, patternOf(member)]),
  )
}

for (const guide of [
  'first-call',
  'authentication',
  'rate-limits',
  'payments',
  'pagination',
  'syncing',
  'messages',
  'money',
  'errors',
]) {
  t.test(`the commands of the guide ${guide} get the responses that it shows`, async (t) => {
    // In the guide to pagination, the second page is not the last one.
    const reader = await createReader(guide === 'pagination' ? 5 : 3)
    if (guide !== 'first-call') return follow(t, guide, reader)
    // The reader of this guide begins with an empty account.
    const { secret: key } = await operator.issueKey(await operator.createAccount())
    return follow(t, guide, { ...reader, key })
  })
}

/** The file of a program and the command that runs it, by the language of the code block. */
const PROGRAMS: Readonly<Record<string, { file: string; command: readonly string[] }>> = {
  js: { file: 'example.mjs', command: [process.execPath] },
  python: { file: 'example.py', command: ['python3'] },
  php: { file: 'example.php', command: ['php'] },
  ruby: { file: 'example.rb', command: ['ruby'] },
  go: { file: 'example.go', command: ['go', 'run'] },
}

async function runProgram(t: Test, guide: string, language: string, env: Record<string, string>) {
  const program = blocksOf(guide).find((block) => block.language === language)?.text ?? ''
  const { file, command } = PROGRAMS[language] ?? { file: '', command: [] }
  const [executable = '', ...args] = command
  const cwd = t.testdir({ [file]: program })
  const { stdout } = await run(executable, [...args, file], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', GOCACHE: join(cwd, 'cache'), ...env },
    timeout: 60_000,
  })
  return stdout
}

for (const [language, { command }] of Object.entries(PROGRAMS)) {
  const skip = missingRuntime(command[0])
  t.test(
    `the program in the guide to pagination reads all pages, in ${language}`,
    { skip },
    async (t) => {
      const { key } = await createReader()
      const env = { API: `${url}/api/v1`, KEY: key }
      t.equal(await runProgram(t, 'pagination', language, env), '3\n')
    },
  )
}

for (const language of ['js', 'python']) {
  const skip = missingRuntime(PROGRAMS[language]?.command[0])
  t.test(
    `the program in the guide to rate limits waits after a 429, in ${language}`,
    { skip },
    async (t) => {
      const { key } = await createReader()
      const proxy = await startUnreliableProxy(t, url, (request) =>
        request === 1 ? 'reject' : 'pass',
      )
      const printed = await runProgram(t, 'rate-limits', language, {
        API: `${proxy.url}/api/v1`,
        KEY: key,
      })
      t.equal(printed, '200 Acme Ltd\n')
      t.equal(proxy.requests(), 2)
    },
  )
}

for (const [language, { command }] of Object.entries(PROGRAMS)) {
  const skip = missingRuntime(command[0])
  t.test(
    `the program in the guide to payments pays once although a response is lost, in ${language}`,
    { skip },
    async (t) => {
      const { key, invoice } = await createReader()
      const outcomes: readonly Outcome[] = ['lose', 'reject', 'pass']
      const proxy = await startUnreliableProxy(t, url, (request) => outcomes[request - 1] ?? 'pass')
      const env = { API: `${proxy.url}/api/v1`, KEY: key, INVOICE: invoice }
      matches(t, await runProgram(t, 'payments', language, env), /^pay_\w+ 10000\n$/)
      t.equal(proxy.requests(), 3)
      t.equal((await call(`${url}/api/v1/payments`, { key })).json.data.length, 1)
    },
  )

  t.test(
    `the program in the guide to syncing reads all records, in ${language}`,
    { skip },
    async (t) => {
      const { key } = await createReader()
      t.equal(await runProgram(t, 'syncing', language, { API: `${url}/api/v1`, KEY: key }), '3\n')
    },
  )
}

t.test('a call over the limit gets the 429 that the guide shows', async (t) => {
  const account = await operator.createAccount()
  const { secret: key } = await operator.issueKey(account)
  for (let consumed = 0; consumed < 600; consumed += 50) {
    await Promise.all(Array.from({ length: 50 }, () => call(`${url}/api/v1/me`, { key })))
  }
  const response = await runCurl(`curl -i ${url}/api/v1/me -H "Authorization: Bearer ${key}"`, {})
  const block = blocksOf('rate-limits').find(({ text }) => text.startsWith('HTTP/1.1 429'))
  const wait = String(response.headers['retry-after'])
  const shown = parseResponse(block?.text.replaceAll('17', wait) ?? '')
  matches(t, { ...response }, { ...shown, text: /./ })
})
