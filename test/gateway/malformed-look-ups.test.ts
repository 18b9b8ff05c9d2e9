/** A key whose look-up gets a faulty response from the backend is neither accepted nor rejected as invalid. */
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { matches } from '../fixtures/matches.ts'
import { listen } from '../fixtures/servers/listen.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { liveKey, respondToLookUp } from '../fixtures/service/look-up-responses.ts'

const KEY = liveKey({ keyId: 'key_1', scopes: ['debtors:read'], rateLimit: 600, principal: 'p' })

let lookUp: { status?: number; results?: readonly object[] | string } = {}
const server = createServer(async (req, res) => {
  const body = await text(req)
  if (req.url !== '/internal/api-keys/look-up') return void res.end('{"ready":true}')
  res.statusCode = lookUp.status ?? 200
  const { results } = lookUp
  res.end(JSON.stringify(results === undefined ? respondToLookUp(body, () => KEY) : { results }))
})
const gateway = await startGateway(t, `http://127.0.0.1:${await listen(t, server)}`, {
  LOG_LEVEL: 'fatal',
})
const callWithNewKey = () => call(`${gateway.url}/api/v1/debtors`, { key: mintApiKey().secret })

for (const [what, response] of [
  ['no list of results', { results: 'none' }],
  ['too few results', { results: [] }],
  ['too many results', { results: [KEY, KEY] }],
  ['a result that is no key', { results: [{ found: true }] }],
  ['a principal that would end its header', { results: [{ ...KEY, principal: 'p\r\nx: 1' }] }],
  ['a limit that is no whole number', { results: [{ ...KEY, rate_limit: 600.5 }] }],
  ['the status of an error', { status: 500 }],
] as const) {
  t.test(
    `after a look-up with ${what}, the call gets 503, and a later call succeeds`,
    async (t) => {
      lookUp = response
      matches(t, await callWithNewKey(), { status: 503, json: { code: 'service_unavailable' } })
      lookUp = {}
      t.equal((await callWithNewKey()).status, 200)
    },
  )
}
