/** The guide's receiver, run as it is written. */
import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { createSender } from '../../backend/webhooks/sender.ts'
import { signMessage } from '../../backend/webhooks/signature.ts'
import { until } from '../fixtures/until.ts'

const guide = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8')
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

function codeOf(language: string): string {
  const [, code] = new RegExp(`\`\`\`${language}\\n([^]*?)\n\`\`\``).exec(guide) ?? []
  if (code === undefined) throw new Error(`the guide has no ${language}`)
  return code
}

/** What we would send now. */
function signedNow(body: Buffer) {
  const timestampSeconds = Math.floor(Date.now() / 1000)
  const message = { id: 'evt_1', timestampSeconds, body }
  return {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signMessage(message, [`whsec_${'A'.repeat(32)}`, SECRET]),
  }
}

t.test("the guide's test vector is what our signatures are made of", async (t) => {
  const cell = (name: string) => new RegExp(`^\\| ${name} \\| \`(.+)\` \\|`, 'm').exec(guide)?.[1]
  const key = Buffer.from(String(cell('secret')).slice(6), 'base64')
  const signed = `${cell('`webhook-id`')}.${cell('`webhook-timestamp`')}.${cell('body')}`
  const expected = createHmac('sha256', key).update(signed).digest('base64')
  t.equal(cell('`webhook-signature`'), `v1,${expected}`)
})

t.test("the guide's Node receiver accepts what we send and nothing else", async (t) => {
  const port = await startGuideReceiver(t)
  const sender = createSender({ privateTargets: 'allow' })
  t.teardown(() => sender.close())
  const send = (headers: Record<string, string>, body: Buffer) =>
    sender.send({ url: `http://127.0.0.1:${port}/`, headers, body })
  const body = Buffer.from('{"id":"evt_1","type":"invoice.paid","note":"é"}')
  const headers = signedNow(body)
  const isListening = async () => (await send({}, body)).error !== 'connection_refused'
  await until(isListening, 'the receiver listens')
  t.match(await send(headers, body), { statusCode: 204 })
  t.match(await send(headers, Buffer.from('{}')), { statusCode: 400 })
  t.match(await send({ ...headers, 'webhook-timestamp': '1614265330' }, body), { statusCode: 400 })
  t.match(await send({}, body), { statusCode: 400 })
})

t.test("the guide's Python accepts what we send and nothing else", async (t) => {
  const body = '{"id":"evt_1"}'
  const headers = JSON.stringify(signedNow(Buffer.from(body)))
  const program = `${codeOf('python')}
import json, sys
secret, headers, body = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3].encode()
print(verify(secret, headers, body), verify(secret, headers, body + b" "), verify(secret, {}, body))`
  const args = ['-c', program, SECRET, headers, body]
  const { stdout } = await promisify(execFile)('python3', args)
  t.equal(stdout.trim(), 'True False False')
})

/** The guide's code in a process of its own, listening. */
async function startGuideReceiver(t: Test): Promise<number> {
  const port = await freePort()
  const directory = t.testdir({ 'receiver.mjs': codeOf('js') })
  const child = execFile(process.execPath, [join(directory, 'receiver.mjs')], {
    env: { WEBHOOK_SECRET: SECRET, PORT: String(port) },
  })
  t.teardown(() => child.kill('SIGKILL'))
  return port
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}
