/** The keys that callers hold, and the service that gateways ask who holds them. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { digestApiKey, mintApiKey } from '../../../shared/api-key.ts'
import type { Stage } from '../machine.ts'

/** Never reached: a benchmark of refusals is another one. */
const RATE_LIMIT = 1_000_000_000

export interface Keys {
  /** Their secrets. */
  readonly all: readonly string[]
  /** A file with a secret a line. */
  readonly file: string
  /** Answers `POST` with a secret as its body (the peers), and our own gateways' look-ups. */
  readonly lookUpUrl: string
}

export async function serveKeys(stage: Stage, count: number, directory: string): Promise<Keys> {
  const answers = new Map<string, string>()
  const all = Array.from({ length: count }, (_, index) => {
    const { secret } = mintApiKey()
    const answer = answerFor(`key_${String(index).padStart(26, '0')}`)
    answers.set(secret, answer).set(digestApiKey(secret), answer)
    return secret
  })
  const file = join(directory, `keys-${count}`)
  writeFileSync(file, `${all.join('\n')}\n`)
  const server = createServer(async (request, response) => {
    if (request.url !== undefined && request.url !== '/' && !request.url.includes('look-up')) {
      return void response.end('{"ready":true}')
    }
    const body = await textOf(request)
    const asked = body.startsWith('{') ? String(JSON.parse(body).digest) : body
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(answers.get(asked) ?? '{"found":false}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stage.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  // A TCP server has an address of this form.
  const { port } = server.address() as AddressInfo
  return { all, file, lookUpUrl: `http://127.0.0.1:${port}/` }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('latin1')) text += chunk
  return text
}

function answerFor(keyId: string): string {
  const scopes = ['debtors:read', 'invoices:read', 'payments:read', 'payments:write']
  return JSON.stringify({
    found: true,
    revoked: false,
    key_id: keyId,
    account_id: 'acct_00000000000000000000000000',
    scopes,
    granted_scopes: scopes,
    rate_limit: RATE_LIMIT,
    // As long as a real one.
    principal: `${keyId}.${'p'.repeat(93)}`,
  })
}
