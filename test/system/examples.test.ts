// Makes the example calls of the OpenAPI document, and compares their responses with the document.

import { request } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import t from 'tap'
import { renderCurl } from '../../backend/docs/curl.ts'
import {
  type DocumentedOperation,
  type Example,
  membersOf,
  readDocument,
  textOf,
} from '../../backend/docs/document.ts'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { readContractDocument } from '../../shared/contract/contract.ts'
import { PROBLEM_TYPES } from '../../shared/contract/problem.ts'
import { assertContract } from '../fixtures/contract/contract.ts'
import { faultsOf } from '../fixtures/contract/schema.ts'
import { matches } from '../fixtures/matches.ts'
import { call, type Response } from '../fixtures/service/call.ts'
import { runCurl } from '../fixtures/service/curl.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const BASE_URL = 'http://localhost:8080'
const { json } = readContractDocument()
const document = readDocument(json)
const system = await startSystem(t, {
  backendEnv: { BASE_URL },
  gatewayEnv: { BASE_URL },
})
const { operator } = system
const url = `${system.url}/api/v1`
const account = await operator.createAccount()
const { secret: key } = await operator.issueKey(account)

/** The ids in the document, in the order in which this test creates the objects. */
const DOCUMENTED_IDS = {
  createDebtor: ['deb_01M45NCFTPHJZKNWRTY3TNJ3Z5', 'deb_01M45NCGPF2M199AYW93X4EDP5'],
  createInvoice: ['inv_01M481X3DTFXGMXYBP2GD0M5P8', 'inv_01M5C3F7VB47MXQ1J4MFCSSHVY'],
} as const
/** The ids of the objects that this run creates, by the id in the document. */
const ids = new Map<string, string>()

function replaceIds(text: string): string {
  return [...ids].reduce(
    (changed, [documentedId, createdId]) => changed.replaceAll(documentedId, createdId),
    text,
  )
}

function operationOf(id: string): DocumentedOperation {
  const found = document.operations.find(({ operationId }) => operationId === id)
  if (found === undefined) throw new Error(`there is no operation ${id}`)
  return found
}

/** Returns the idempotency key in the example response of the same name. */
function idempotencyKeyOf({ responses }: DocumentedOperation, example?: Example): string {
  const shown = responses[0]?.content?.examples.find(({ name }) => name === example?.name)
  return textOf(membersOf(shown?.value)['idempotency_key'])
}

/** Makes the call with the curl command of the reference. */
function makeCall(operation: DocumentedOperation, example?: Example): Promise<Response> {
  const line = renderCurl(operation, system.url, example)
  const idempotencyKey = idempotencyKeyOf(operation, example)
  const script = replaceIds(line).replace(
    /Idempotency-Key: [^']+/,
    `Idempotency-Key: ${idempotencyKey}`,
  )
  return runCurl(script, { KEY: key })
}

function schemaOf(content: DocumentedOperation['body']): string {
  return textOf(membersOf(content?.schema)['$ref']).replace('#/components/schemas/', '')
}

/** Matches the members whose values differ between days and accounts. */
const VARIABLE =
  /(?:_at|updated|\bid|_id|label|days_past_due|is_overdue|number|issue_date|due_date|received_on|messages_\w+)$/

/** Returns `{ a: { b: 1 } }` as `[['a.b', 1]]`, without the members that match `VARIABLE` or concern chasing. */
function leafValuesOf(value: unknown, path = ''): [string, unknown][] {
  if (VARIABLE.test(path) || /(?:^|\.)chasing/.test(path)) return []
  if (typeof value !== 'object' || value === null) return [[path, value]]
  return Object.entries(value).flatMap(([name, member]) =>
    leafValuesOf(member, path + (path && '.') + name),
  )
}

t.test(
  'every example body is accepted, and gets the example response of the same name if there is one',
  async (t) => {
    const thirdInvoice = { debtor_external_id: 'C-10042', currency: 'EUR', amount: 150_000 }
    for (const id of ['createDebtor', 'createInvoice', 'createPayment'] as const) {
      const operation = operationOf(id)
      const [created] = operation.responses
      const shown = created?.content?.examples ?? []
      let compared = 0
      for (const [index, example] of (operation.body?.examples ?? []).entries()) {
        const response = await makeCall(operation, example)
        t.equal(response.status, 201, `${id}: ${example.name}`)
        assertContract('POST', system.url + operation.path, response)
        const documentedId = id === 'createPayment' ? undefined : DOCUMENTED_IDS[id][index]
        if (documentedId !== undefined) ids.set(documentedId, response.json.id)
        const expected = shown.find(({ name }) => name === example.name) ?? shown[index]
        const hasExpected =
          expected?.name === example.name || (expected?.name === 'example' && index === 0)
        if (!hasExpected) continue
        compared++
        t.strictSame(
          leafValuesOf(response.json),
          leafValuesOf(expected?.value),
          `${id}: ${example.name}`,
        )
      }
      t.ok(compared > 0, `${id} has an example response to compare`)
      if (id === 'createInvoice') {
        const { json } = await call(`${url}/invoices`, { key, body: thirdInvoice })
        ids.set('inv_01M6DJMH85QMDT50Z0FRC4FD0P', json.id)
      }
    }
  },
)

t.test('every GET operation gets 200 with its example parameters', async (t) => {
  for (const operation of document.operations.filter(({ method }) => method === 'GET')) {
    const response = await makeCall(operation)
    t.equal(response.status, 200, operation.operationId)
    assertContract('GET', system.url + operation.path, response)
  }
})

t.test('every example response matches its schema', async (t) => {
  for (const { operationId, responses } of document.operations) {
    for (const { status, headers, content } of responses) {
      for (const { name, value } of content?.examples ?? []) {
        const faults = faultsOf(schemaOf(content), value)
        t.strictSame(faults, [], `${operationId} ${status} ${name}`)
      }
      for (const [name, { schema, example }] of headers) {
        const pattern = textOf(document.resolve(schema)['pattern'])
        matches(t, String(example), new RegExp(pattern, 'u'), name)
      }
    }
  }
})

const components = membersOf(JSON.parse(json)['components'])
/** The example errors by name, which is the code; `payment_key_reused` is a second example of a code. */
const examples = new Map(
  Object.entries(membersOf(components['examples']))
    .map(([name, example]) => [name, membersOf(membersOf(example)['value'])] as const)
    .filter(([, value]) => 'code' in value),
)
/** Errors that a single call cannot cause. Other tests cause them. */
const NOT_CAUSED_HERE = [
  'request_timeout',
  'idempotency_in_progress',
  'internal_error',
  'bad_gateway',
  'gateway_timeout',
]

t.test('each error that one call can cause has the response that its example shows', async (t) => {
  const valid = { key }
  const money = { currency: 'EUR', amount: 1 }
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    call(`${url}/${path}`, { key, body, headers })
  const pay = (body: unknown, idempotencyKey = 'an-error') =>
    post('payments', body, { 'idempotency-key': idempotencyKey })
  const [paidId, linesId, thirdId] = [
    '481X3DTFXGMXYBP2GD0M5P8',
    '5C3F7VB47MXQ1J4MFCSSHVY',
    '6DJMH85Q',
  ].map((part) => [...ids].find(([documentedId]) => documentedId.includes(part))?.[1])
  const narrow = await operator.issueKey(account, { scopes: ['payments:read'] })
  const revoked = await operator.issueKey(account)
  await operator.revokeKey(revoked.id)
  const expiring = await operator.issueKey(account, { expiresAt: new Date(Date.now() + 1_000) })
  const confined = await operator.issueKey(account, { allowedAddresses: ['203.0.113.7'] })
  const limitedKey = await operator.issueKey(account, { rateLimit: 1 })
  await call(`${url}/me`, { key: limitedKey.secret })
  const suspended = await operator.createAccount()
  const suspendedKey = await operator.issueKey(suspended)
  await operator.setStatus(suspended, 'suspended')
  const draft = await post('invoices', {
    ...money,
    status: 'draft',
    debtor_external_id: 'C-10042',
  })
  const cases: Record<string, () => Promise<Response>> = {
    bad_request: () => sendDuplicateHeader(),
    unknown_query_parameter: () => call(`${url}/invoices?debtor=1`, valid),
    invalid_query_parameter: () => call(`${url}/debtors?limit=0`, valid),
    invalid_cursor: async () => {
      const { json } = await call(`${url}/invoices?limit=1`, valid)
      return call(`${url}/debtors?cursor=${json.next_cursor}`, valid)
    },
    malformed_json: () => post('debtors', '[]'),
    duplicate_json_key: () => pay('{"amount":1,"amount":2}'),
    idempotency_key_required: () => post('payments', money),
    idempotency_key_invalid: () => pay(money, 'a b'),
    missing_api_key: () => call(`${url}/me`),
    malformed_authorization: () => call(`${url}/me`, { headers: { authorization: 'Basic x' } }),
    invalid_api_key: () => call(`${url}/me`, { key: mintApiKey().secret }),
    revoked_api_key: () => call(`${url}/me`, { key: revoked.secret }),
    expired_api_key: async () => {
      const me = () => call(`${url}/me`, { key: expiring.secret })
      await until(async () => (await me()).status === 401, 'the key expires')
      return me()
    },
    address_not_allowed: () => call(`${url}/me`, { key: confined.secret }),
    insufficient_scope: () => call(`${url}/payments`, { key: narrow.secret, body: money }),
    not_found: () => call(`${url}/debtors/x`, valid),
    route_not_found: () => call(`${url}/customers`, valid),
    method_not_allowed: () => call(`${url}/debtors`, { ...valid, method: 'DELETE' }),
    not_acceptable: () => call(`${url}/me`, { ...valid, headers: { accept: 'text/html' } }),
    duplicate_external_id: () => post('debtors', { name: 'a', external_id: 'C-10042' }),
    duplicate_invoice_number: () =>
      post('invoices', { ...money, debtor_external_id: 'C-10042', number: '2026-0412' }),
    invoice_not_payable: () => pay({ ...money, invoice_id: draft.json.id }),
    payload_too_large: () => post('debtors', { name: 'a'.repeat(262_144) }),
    uri_too_long: () => call(`${url}/debtors?q=${'a'.repeat(8192)}`, valid),
    unsupported_media_type: () => post('debtors', 'a=b', { 'content-type': 'text/plain' }),
    validation_failed: () => post('debtors', { 'e-mail': 'a' }),
    unsupported_currency: () =>
      post('invoices', { currency: 'XAU', amount: 1, debtor_external_id: 'C-10042' }),
    debtor_not_found: () =>
      post('invoices', { ...money, debtor_id: 'deb_01M7YP4MWGQFRFHF64NPY4QX00' }),
    invoice_not_found: () =>
      pay({
        ...money,
        amount: 2,
        allocations: [thirdId, 'inv_01M7YP4MWGQFRFHF64NPY4QX00'].map((invoice_id) => ({
          invoice_id,
          amount: 1,
        })),
      }),
    total_mismatch: () =>
      post('invoices', {
        debtor_external_id: 'C-10042',
        currency: 'EUR',
        amount: 80_162,
        line_items: [{ description: 'a', unit_amount: 80_163 }],
      }),
    currency_mismatch: () => pay({ amount: 1, currency: 'USD', invoice_id: thirdId }),
    payment_exceeds_balance: () => pay({ amount: 30_164, currency: 'EUR', invoice_id: thirdId }),
    allocation_exceeds_payment: () =>
      pay({
        amount: 200_000,
        currency: 'EUR',
        allocations: [
          { invoice_id: thirdId, amount: 100_001 },
          { invoice_id: linesId, amount: 100_000 },
        ],
      }),
    idempotency_key_reused: async () => {
      await post('debtors', { name: 'a' }, { 'idempotency-key': 'one' })
      return post('debtors', { name: 'b' }, { 'idempotency-key': 'one' })
    },
    payment_key_reused: () => pay({ ...money, invoice_id: paidId }, 'bank-20261120-0077'),
    account_read_only: () =>
      call(`${url}/debtors`, { key: suspendedKey.secret, body: { name: 'a' } }),
    rate_limit_exceeded: () => call(`${url}/me`, { key: limitedKey.secret }),
    headers_too_large: () => call(`${url}/me`, { key, headers: { 'x-a': 'a'.repeat(16_384) } }),
    service_unavailable: async () => {
      await Promise.all(system.backends.map((backend) => backend.stop('SIGKILL')))
      return call(`${url}/me`, valid)
    },
  }
  t.strictSame(
    [...Object.keys(cases), ...NOT_CAUSED_HERE].toSorted(),
    [...examples.keys()].toSorted(),
  )
  for (const [name, cause] of Object.entries(cases)) {
    const { status, json } = await cause()
    const shown = examples.get(name) ?? {}
    t.equal(status, shown['status'], name)
    const { request_id: _, ...response } = json
    const { request_id: __, ...example } = shown
    t.strictSame(withoutVariableText(response), withoutVariableText(example), name)
  }
  for (const [name, { status, title, code, retryable }] of examples) {
    const type = Object.entries(PROBLEM_TYPES).find(([knownCode]) => knownCode === code)?.[1]
    t.strictSame({ status, title, retryable }, type, name)
  }
})

/** Removes ids, assigned invoice numbers and the figures of a 429, which differ between runs. */
function withoutVariableText(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value)
      .replace(/(deb|inv|pay)_[0-9A-Z]{26}|INV-\d{6}/g, '$1')
      .replace(/of \d+ requests per hour reached, try again in \d+ seconds?/, 'reached'),
  )
}

/** Sends a header twice with node:http, because the other clients of the tests cannot. */
function sendDuplicateHeader(): Promise<Response> {
  const type = 'application/json'
  return new Promise((resolve, reject) => {
    const headers = ['authorization', `Bearer ${key}`, 'host', 'localhost']
    const doubled = [...headers, 'content-type', type, 'content-type', type]
    const req = request(`${url}/debtors`, { method: 'POST', headers: doubled }, async (res) => {
      const text = await readText(res)
      resolve({ status: res.statusCode ?? 0, headers: res.headers, text, json: JSON.parse(text) })
    })
    req.on('error', reject).end('{}')
  })
}
