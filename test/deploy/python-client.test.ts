// Runs the Python client, which readers download from the documentation, against the service.
import { execFile, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { reservePort } from '../fixtures/servers/ports.ts'
import { type Outcome, startUnreliableProxy } from '../fixtures/servers/unreliable-proxy.ts'
import { call } from '../fixtures/service/call.ts'
import { untilDocsAreRendered } from '../fixtures/service/documentation.ts'
import { missingCommand } from '../fixtures/service/languages.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'
import { receiveWebhook } from '../fixtures/service/webhook.ts'

// Over plain http, Settings accept a password only if the base URL is a loopback address.
const BASE_URL = { BASE_URL: 'http://127.0.0.1:8080' }

const system = await startSystem(t, {
  backendEnv: { ...BASE_URL, WEBHOOK_PRIVATE_TARGETS: 'allow' },
  gatewayEnv: BASE_URL,
})
const { operator, url } = system

await untilDocsAreRendered(url)
const webhook = await receiveWebhook(t, system)
const directory = join(t.testdirName, 'integration')
mkdirSync(directory)
const served = await fetch(`${url}/docs/examples/receivables.py`)
writeFileSync(join(directory, 'receivables.py'), await served.text())

const skip = missingCommand('python3')

const PREAMBLE = `import json, os
from receivables import *
receivables = Receivables(os.environ["SERVICE"], os.environ["KEY"], wait_max_seconds=5)
`

async function run(program: string, env: Record<string, string>): Promise<string> {
  writeFileSync(join(directory, 'program.py'), program)
  // Every warning counts as an error, for example a warning about a connection that was left open.
  const { stdout } = await promisify(execFile)('python3', ['-W', 'error', 'program.py'], {
    cwd: directory,
    env: { PATH: process.env['PATH'] ?? '', ...env },
    timeout: 60_000,
  })
  return stdout
}

async function createKey(): Promise<string> {
  return (await operator.issueKey(await operator.createAccount())).secret
}

t.test(
  'the client creates records, reads whole lists, and raises an error for a rejected request',
  { skip },
  async (t) => {
    const printed = await run(
      `${PREAMBLE}
debtor = receivables.post("/debtors", {"name": "Globex"})
for amount in (100, 200, 300):
    receivables.post("/invoices", {"debtor_id": debtor["id"], "currency": "EUR", "amount": amount})
listed = receivables.list_all("/invoices", status=["open", "partially_paid"], overdue=False, limit=2)
print(sum(invoice["amount_due"] for invoice in listed))
try:
    receivables.post("/payments", {"amount": "1", "currency": "EUR"}, "bank-1")
except ReceivablesError as error:
    print(error.status, error.code, error.retryable, error.problem["errors"][0]["pointer"])
try:
    receivables.post("/debtors", {"name": "Globex"}, idempotency_key="")
except ReceivablesError as error:
    print(error.status, error.code)
from_file = Receivables(f" {os.environ['SERVICE']}\\n", os.environ["KEY"] + "\\n")
print(from_file.get("/me")["object"])
try:
    receivables.get("/debtors/C 7")
except OutcomeUnknown:
    print("unknown")
except Exception as error:
    print(type(error).__name__)
try:
    Receivables("localhost:8080", "any")
except ValueError as error:
    print(error)
`,
      { SERVICE: url, KEY: await createKey() },
    )
    t.strictSame(printed.trim().split('\n'), [
      '600',
      '422 validation_failed False /amount',
      '400 idempotency_key_invalid',
      // Regression: white space before the URL was rejected.
      'probe',
      'InvalidURL',
      // Regression: calls were repeated as if the service did not respond.
      'The URL must begin with http:// or https://, not localhost:8080',
    ])
  },
)

t.test(
  'a POST is retried after a lost response and a 429, and carried out once',
  { skip },
  async (t) => {
    const key = await createKey()
    const outcomes: readonly Outcome[] = ['lose', 'reject', 'pass']
    const proxy = await startUnreliableProxy(t, url, (n) => outcomes[(n - 1) % 3] ?? 'pass')
    const startedAt = performance.now()
    const printed = await run(
      `${PREAMBLE}
debtor = receivables.post("/debtors", {"name": "Globex"})
payment = {"debtor_id": debtor["id"], "currency": "EUR", "amount": 200}
print(receivables.post("/payments", payment, idempotency_key="bank-1")["idempotency_key"])
`,
      { SERVICE: proxy.url, KEY: key },
    )
    t.equal(printed, 'bank-1\n')
    t.equal(proxy.requests(), 6)
    t.ok(performance.now() - startedAt >= 2000, 'the client waited for Retry-After twice')
    for (const list of ['debtors', 'payments']) {
      t.equal((await call(`${url}/api/v1/${list}`, { key })).json.data.length, 1, list)
    }
  },
)

t.test(
  'the client raises an error for a rejection, for too long a wait and for an unknown outcome',
  { skip },
  async (t) => {
    const outcomes: readonly Outcome[] = ['reject', 'pass', 'lose', 'lose']
    const proxy = await startUnreliableProxy(t, url, (n) => outcomes[n - 1] ?? 'pass')
    const printed = await run(
      `${PREAMBLE}
service, key = os.environ["SERVICE"], os.environ["KEY"]
try:
    Receivables(service, key, wait_max_seconds=0.5).get("/me")
except ReceivablesError as error:
    print(error.code, error.retryable, error.retry_after)
try:
    Receivables(service, "unknown").get("/me")
except ReceivablesError as error:
    print(error.code, error.retryable)
try:
    Receivables(service, key, attempts_max=2).post("/debtors", {"name": "Globex"}, "erp-1")
except OutcomeUnknown:
    print(receivables.post("/debtors", {"name": "Globex"}, "erp-1")["name"])
print(len(list(receivables.list_all("/debtors"))))
`,
      { SERVICE: proxy.url, KEY: await createKey() },
    )
    t.strictSame(printed.trim().split('\n'), [
      'rate_limit_exceeded True 1.0',
      'malformed_authorization False',
      'Globex',
      '1',
    ])
  },
)

t.test(
  'the client accepts a webhook of the service, and rejects forged webhooks',
  { skip },
  async (t) => {
    const { headers, body, secret } = webhook
    const printed = await run(
      `import json, os
from receivables import *
headers, body, secret = json.loads(os.environ["HEADERS"]), os.environb[b"BODY"], os.environ["SECRET"]
print(verify_webhook(body, headers, secret)["data"]["object"]["name"])
print(verify_webhook(body, {k.title(): v for k, v in headers.items()}, secret + "\\r\\n")["type"])
late = {**headers, "webhook-timestamp": "1614265330"}
two = {**headers, "webhook-signature": "v1,AAAA " + headers["webhook-signature"]}
print(verify_webhook(body, two, secret)["type"])
other = "whsec_" + "A" * 32
malformed = {**headers, "webhook-id": "\\udcff", "webhook-signature": "v1,\\udcff"}
for forged in [(body + b" ", headers, secret), (body, late, secret), (body, {}, secret), (body, headers, other), (body, malformed, secret)]:
    try:
        verify_webhook(*forged)
    except WebhookVerificationError as error:
        print(error)
`,
      { HEADERS: JSON.stringify(headers), BODY: body, SECRET: secret },
    )
    t.strictSame(printed.trim().split('\n'), [
      'Globex',
      'debtor.created',
      'debtor.created',
      'No signature matches.',
      'The timestamp is more than five minutes from now.',
      'There is no timestamp.',
      'No signature matches.',
      'No signature matches.',
    ])
  },
)

const guide = readFileSync(new URL('../../docs/clients.md', import.meta.url), 'utf8')
const [calls = '', receiver = ''] = [...guide.matchAll(/^```python\n(.*?)^```$/gms)].map(
  ([, code = '']) => code,
)

t.test('the program in the guide to clients runs', { skip }, async (t) => {
  const key = await createKey()
  await call(`${url}/api/v1/debtors`, { key, body: { name: 'Globex', external_id: 'C-1' } })
  const invoice = { debtor_external_id: 'C-1', currency: 'EUR', amount: 12_500 }
  await call(`${url}/api/v1/invoices`, { key, body: invoice })
  t.equal(await run(calls, { SERVICE: url, KEY: key }), 'INV-000001 12500 EUR\n10000\n')
})

t.test(
  'the receiver in the guide accepts a webhook of the service, and rejects a forged one',
  { skip },
  async (t) => {
    const { headers, body, secret } = webhook
    writeFileSync(join(directory, 'receiver.py'), receiver)
    const port = String(await reservePort())
    const child = spawn('python3', ['receiver.py'], {
      cwd: directory,
      env: { PATH: process.env['PATH'] ?? '', PORT: port, WEBHOOK_SECRET: secret },
      stdio: 'ignore',
    })
    t.teardown(() => child.kill('SIGKILL'))
    const send = async (sent: string) => {
      const init = { method: 'POST', headers, body: sent }
      return (await fetch(`http://127.0.0.1:${port}/`, init)).status
    }
    await until(() => send('').catch(() => undefined), 'the receiver listens')
    t.equal(await send(body), 204)
    t.equal(await send(`${body} `), 400)
  },
)
