/** `Proxy-Status` reports to a proxy or client why the gateway itself responded (RFC 9209). */
import t from 'tap'
import { createProblemRenderer } from '../../gateway/downstream/response.ts'
import { fieldValue } from '../../gateway/http1/fields.ts'
import { PROBLEM_TYPES, Problem, type ProblemCode } from '../../shared/contract/problem.ts'

function proxyError(code: ProblemCode): string | undefined {
  const render = createProblemRenderer('https://api.test')
  const { headers } = render(new Problem(code, 'Detail.'), 'req_1')
  return fieldValue(headers, 'proxy-status')
}

// Regression: expired keys and addresses that are not allowed were reported as malformed requests.
t.test(
  'each problem with the status 401, 403 or 429 is reported as a denied request',
  async (t) => {
    const codes = Object.keys(PROBLEM_TYPES) as (keyof typeof PROBLEM_TYPES)[]
    const denied = codes.filter((code) => [401, 403, 429].includes(PROBLEM_TYPES[code].status))
    t.ok(denied.includes('expired_api_key') && denied.includes('address_not_allowed'))
    for (const code of denied) {
      t.equal(proxyError(code), 'receivables-gateway; error=http_request_denied', code)
    }
  },
)

t.test('other problems are reported with other types of errors', async (t) => {
  const types: [code: ProblemCode, type: string][] = [
    ['route_not_found', 'http_request_error'],
    ['payload_too_large', 'http_request_error'],
    ['internal_error', 'proxy_internal_error'],
    ['bad_gateway', 'http_protocol_error'],
    ['service_unavailable', 'destination_unavailable'],
    ['gateway_timeout', 'http_response_timeout'],
  ]
  for (const [code, type] of types) {
    t.equal(proxyError(code), `receivables-gateway; error=${type}`, code)
  }
})
