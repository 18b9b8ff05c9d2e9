/**
 * `node key-service.ts KEYS PORT`: looks up keys for gateways. The file KEYS has one secret per line. The service is a
 * separate process, so that it does not delay the load generator.
 */
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { digestApiKey } from '../../../shared/contract/api-key.ts'
import { liveKey, respondToLookUp, UNKNOWN_KEY } from '../../fixtures/service/look-up-responses.ts'

/** A limit that is never reached, because this benchmark does not measure rejections. */
const RATE_LIMIT = 1_000_000_000

const [file = '', port] = process.argv.slice(2)
const responses = new Map<string, object>()
for (const [index, secret] of readFileSync(file, 'utf8').trimEnd().split('\n').entries()) {
  const response = respondTo(`key_${String(index).padStart(26, '0')}`)
  // The peers look keys up by their secret, our own gateways by its digest.
  responses.set(secret, response).set(digestApiKey(secret), response)
}

const server = createServer(async (request, response) => {
  if (request.url !== undefined && request.url !== '/' && !request.url.includes('look-up')) {
    return void response.end('{"ready":true}')
  }
  const body = await textOf(request)
  const find = (requested: string) => responses.get(requested) ?? UNKNOWN_KEY
  const found = body.startsWith('{') ? respondToLookUp(body, find) : find(body)
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(found))
})
server.listen(Number(port), '127.0.0.1')

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('latin1')) text += chunk
  return text
}

function respondTo(keyId: string): object {
  const scopes = ['debtors:read', 'invoices:read', 'payments:read', 'payments:write']
  // This is as long as a real principal.
  const principal = `${keyId}.${'p'.repeat(93)}`
  return liveKey({ keyId, scopes, rateLimit: RATE_LIMIT, principal })
}
