// Runs the code samples of the webhooks guide. They are unchanged, except that the PHP sample lacks its last lines.

import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { createSender } from '../../../backend/webhooks/sender.ts'
import { signWebhook } from '../../../backend/webhooks/signature.ts'
import { matches } from '../../fixtures/matches.ts'
import { reservePort } from '../../fixtures/servers/ports.ts'
import { missingCommand } from '../../fixtures/service/languages.ts'
import { until } from '../../fixtures/service/until.ts'

const guide = readFileSync(new URL('../../../docs/webhooks.md', import.meta.url), 'utf8')
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

function codeOf(language: string): string {
  const [, code] = new RegExp(`\`\`\`${language}\\n([^]*?)\n\`\`\``).exec(guide) ?? []
  if (code === undefined) throw new Error(`the guide has no ${language}`)
  return code
}

/** Returns the headers with which the service would send the body now. */
function headersOf(body: Buffer) {
  const timestampSeconds = Math.floor(Date.now() / 1000)
  const message = { id: 'evt_1', timestampSeconds, body }
  return {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signWebhook(message, [`whsec_${'A'.repeat(32)}`, SECRET]),
  }
}

t.test("the guide's test vector has a valid signature", async (t) => {
  const cell = (name: string) => new RegExp(`^\\| ${name} \\| \`(.+)\` \\|`, 'm').exec(guide)?.[1]
  const key = Buffer.from(String(cell('secret')).slice(6), 'base64')
  const signed = `${cell('`webhook-id`')}.${cell('`webhook-timestamp`')}.${cell('body')}`
  const expected = createHmac('sha256', key).update(signed).digest('base64')
  t.equal(cell('`webhook-signature`'), `v1,${expected}`)
})

t.test("the guide's Node receiver accepts our webhooks, and rejects forged ones", async (t) => {
  const port = await startGuideReceiver(t)
  const sender = createSender({ privateTargetPolicy: 'allow' })
  t.teardown(() => sender.close())
  const send = (headers: Record<string, string>, body: Buffer) =>
    sender.send({ url: `http://127.0.0.1:${port}/`, headers, body })
  const body = Buffer.from('{"id":"evt_1","type":"invoice.paid","note":"é"}')
  const headers = headersOf(body)
  const isListening = async () => (await send({}, body)).error !== 'connection_refused'
  await until(isListening, 'the receiver listens')
  matches(t, await send(headers, body), { statusCode: 204 })
  matches(t, await send(headers, Buffer.from('{}')), { statusCode: 400 })
  matches(t, await send({ ...headers, 'webhook-timestamp': '1614265330' }, body), {
    statusCode: 400,
  })
  matches(t, await send({}, body), { statusCode: 400 })
})

/** For each language, the file, the command that runs it, and a program that calls the guide's `verify`. */
const LANGUAGES = {
  python: {
    file: 'verify.py',
    command: ['python3', 'verify.py'],
    program: (code: string) => `${code}
import json, sys
secret, headers, body = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3].encode()
print(*[str(verify(*a)).lower() for a in [
  (secret, headers, body), (secret, headers, body + b" "), (secret, {}, body)]])
# Regression: these timestamps raised an exception, because \`isdigit\` accepts digits that \`int\` rejects.
assert not any(verify(secret, {**headers, "webhook-timestamp": t}, body) for t in ["²", "9" * 5000])`,
  },
  ruby: {
    file: 'verify.rb',
    command: ['ruby', 'verify.rb'],
    program: (code: string) => `${code}
require "json"
secret, headers, body = ARGV[0], JSON.parse(ARGV[1]), ARGV[2]
puts [[headers, body], [headers, body + " "], [{}, body]].map { |h, b| verify(secret, h, b) }.join(" ")`,
  },
  php: {
    file: 'verify.php',
    command: ['php', 'verify.php'],
    // The last lines of the sample, which read a request, are removed.
    program: (code: string) => `${code.replace(/\n\$headers = [\s\S]*/, '')}
[, $secret, $json, $body] = $argv;
$headers = json_decode($json, true);
$cases = [[$headers, $body], [$headers, "$body "], [[], $body]];
echo implode(' ', array_map(fn($c) => var_export(verify($secret, ...$c), true), $cases));`,
  },
  go: {
    file: 'verify.go',
    command: ['go', 'run', 'verify.go'],
    program: (code: string) => `package main
import ("crypto/hmac"; "crypto/sha256"; "encoding/base64"; "encoding/json"; "fmt"; "net/http"; "os"; "strconv"; "strings"; "time")
${code}
func main() {
	var given map[string]string
	json.Unmarshal([]byte(os.Args[2]), &given)
	header := http.Header{}
	for name, value := range given { header.Set(name, value) }
	body := []byte(os.Args[3])
	fmt.Println(verify(os.Args[1], header, body), verify(os.Args[1], header, append(body, ' ')), verify(os.Args[1], http.Header{}, body))
}`,
  },
}

for (const [language, { file, command, program }] of Object.entries(LANGUAGES)) {
  const [interpreter = '', ...args] = command
  const skip = missingCommand(interpreter)
  t.test(
    `the guide's ${language} sample accepts our webhooks, and rejects forged ones`,
    { skip },
    async (t) => {
      const cwd = t.testdir({ [file]: program(codeOf(language)) })
      const body = '{"id":"evt_1"}'
      const headers = JSON.stringify(headersOf(Buffer.from(body)))
      const options = { cwd, env: { ...process.env, GOCACHE: join(cwd, 'cache') } }
      const { stdout } = await promisify(execFile)(
        interpreter,
        [...args, SECRET, headers, body],
        options,
      )
      t.equal(stdout.trim(), 'true false false')
    },
  )
}

/** Starts the guide's receiver in its own process. */
async function startGuideReceiver(t: Test): Promise<number> {
  const port = await reservePort()
  const directory = t.testdir({ 'receiver.mjs': codeOf('js') })
  const child = execFile(process.execPath, [join(directory, 'receiver.mjs')], {
    env: { WEBHOOK_SECRET: SECRET, PORT: String(port) },
  })
  t.teardown(() => child.kill('SIGKILL'))
  return port
}
