/** Requests whose target and headers are as large as the gateway accepts. */
import t from 'tap'
import { HEADER_BYTES_MAX, TARGET_BYTES_MAX } from '../../gateway/http1/limits.ts'
import { matches } from '../fixtures/matches.ts'
import { exchangeBytes } from '../fixtures/service/gateway.ts'
import { startSystem } from '../fixtures/service/system.ts'

const system = await startSystem(t)
const { secret: key } = await system.operator.issueKey(await system.operator.createAccount())
const port = Number(new URL(system.url).port)

/** Pads the headers to their limit, and the query, if there is one, to the limit of the target. */
async function send(method: string, target: string, lines: readonly string[], body = '') {
  const fixed = ['Host: a', 'Connection: close', `Content-Length: ${body.length}`, ...lines]
  // The colon and the space count as two bytes, like the name and the value in the limit.
  const fixedBytes = fixed.join('').length + 'User-Agent: '.length
  const headers = [...fixed, `User-Agent: ${'u'.repeat(HEADER_BYTES_MAX - fixedBytes)}`]
  const padded = target.includes('?') ? target.padEnd(TARGET_BYTES_MAX, 'x') : target
  const head = `${method} ${padded} HTTP/1.1\r\n${headers.join('\r\n')}`
  const { text } = await exchangeBytes(port, `${head}\r\n\r\n${body}`)
  return text
}

// Regression: such requests got 502, and clients were told that the outcome of a write was unknown.
t.test('backends accept the largest requests that gateways accept', async (t) => {
  const authorization = `Authorization: Bearer ${key}`
  const read = await send('GET', '/api/v1/debtors?q=', [authorization])
  matches(t, read, /^HTTP\/1.1 400 .*"code":"invalid_query_parameter"/s)
  const write = [authorization, 'Content-Type: application/json', 'Idempotency-Key: a']
  const written = await send('POST', '/api/v1/debtors', write, '{"name":"Jansen"}')
  matches(t, written, /^HTTP\/1.1 201 /)
  matches(t, await send('GET', '/settings/login?next=', []), /^HTTP\/1.1 200 /)
})
