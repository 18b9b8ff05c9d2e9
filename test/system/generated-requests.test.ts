/**
 * Requests made from the OpenAPI document, through a gateway to the running service: none gives a 5xx,
 * what is accepted and what is refused is as the document says, and so is every answer. Of each
 * operation GENERATED_REQUESTS are sent (200 unless set; many need a longer --timeout of tap), and
 * SEED makes others.
 */
import assert from 'node:assert/strict'
import t from 'tap'
import { Agent } from 'undici'
import { type DocumentedOperation, readDocument } from '../../backend/docs/document.ts'
import { readContractDocument } from '../../shared/contract/contract.ts'
import { type GeneratedRequest, requestsOf } from '../fixtures/contract/generated-requests.ts'
import { refusalsOf, rulesOf } from '../fixtures/contract/request-refusals.ts'
import { fc, SEED } from '../fixtures/properties.ts'
import { call, type Response } from '../fixtures/service/call.ts'
import { startSystem } from '../fixtures/service/system.ts'

const COUNT = Number(process.env['GENERATED_REQUESTS'] ?? 200)

/** Requests whose response once deviated from the document. */
const FOUND: Readonly<Record<string, readonly GeneratedRequest[]>> = {
  listInvoices: [{ target: '/api/v1/invoices?cursor=', headers: {} }],
  createDebtor: [
    { target: '/api/v1/debtors', headers: {}, body: '{"name":"!","timezone":""}' },
    { target: '/api/v1/debtors?a%zz=1', headers: {}, body: '{"name":"!"}' },
    { target: '/api/v1/debtors', headers: {}, body: '{"name":"!","metadata":{"__proto__":"x"}}' },
  ],
  createInvoice: [
    {
      target: '/api/v1/invoices',
      headers: {},
      body: '{"debtor_external_id":"\\ud800","currency":"EUR","amount":1}',
    },
    {
      target: '/api/v1/invoices',
      headers: {},
      body: '{"debtor_external_id":"C-1","currency":"EUR","amount":null,"line_items":null}',
    },
    {
      target: '/api/v1/invoices',
      headers: {},
      body: '{"debtor_external_id":"C-1","currency":"EUR","line_items":[{"description":"x","unit_amount":0}]}',
    },
  ],
}

/**
 * What a body may break besides its schema: where, and the code of the field's error. The document says
 * each of these in words.
 */
const RULES: readonly [pointer: RegExp, code: string][] = [
  [/^\/due_date$/, 'out_of_range'],
  [/^\/received_on$/, 'out_of_range'],
  [/^\/received_on$/, 'not_in_future'],
  [/^\/allocations\/\d+\/invoice_id$/, 'invalid_format'],
  [/^\/line_items(?:\/\d+(?:\/quantity)?)?$/, 'out_of_range'],
  [/^\/(?:timezone|language|address\/country)$/, 'invalid_format'],
]

const document = readDocument(readContractDocument().json)
const system = await startSystem(t)
const { operator, url } = system
const account = await operator.createAccount()
const { secret: key } = await operator.issueKey(account, { rateLimit: 10_000_000 })
const dispatcher = new Agent({ connections: 4 })
t.teardown(() => dispatcher.close())

async function made(path: string, body: unknown): Promise<string> {
  const { status, json } = await call(`${url}/api/v1/${path}`, { key, body })
  assert.equal(status, 201, JSON.stringify(json))
  return json.id
}

const debtors = [
  await made('debtors', { name: 'Globex', external_id: 'C-1' }),
  await made('debtors', { name: 'Aoki Trading', external_id: 'C-2', currency: 'JPY' }),
]
const invoices: string[] = []
for (const [at, status] of [...Array(8).fill('open'), 'draft'].entries()) {
  const bill = { debtor_id: debtors[at % 2], currency: 'EUR', amount: 999_999_999_999, status }
  invoices.push(await made('invoices', bill))
}

const UNKNOWN = 'inv_01M481X3DTFXGMXYBP2GD0M5P8'
const likely = new Map<string, readonly fc.JsonValue[]>([
  ['Debtors', debtors],
  ['Invoices', invoices],
  ['debtor_id', debtors],
  ['debtor_external_id', ['C-1', 'C-2']],
  ['invoice_id', [...invoices, UNKNOWN]],
  ['currency', ['EUR', 'EUR', 'eur', 'JPY', null]],
  ['amount', [1, 2, 100, 12_345]],
  ['received_on', ['2026-11-01', '2020-02-29', null]],
  ['issue_date', ['2026-10-01', null]],
  ['due_date', ['2026-12-01', '9999-12-31', null]],
  ['timezone', ['Europe/Amsterdam', 'UTC', null]],
  ['country', ['NL', 'JP', null]],
  ['language', ['nl', 'en-GB', null]],
  ['number', ['INV-1', null]],
])

/** As sent: without what `call` would make of it. */
function send({ method, body: documented }: DocumentedOperation, request: GeneratedRequest) {
  const { target, headers, body } = request
  return call(url + target, {
    key,
    method: method === 'POST' ? 'POST' : 'GET',
    headers,
    dispatcher,
    ...(documented === undefined ? {} : { body: body ?? '' }),
  })
}

/** What became of it; throws where that is not what the document says. */
function judge(
  operation: DocumentedOperation,
  request: GeneratedRequest,
  { status, json }: Response,
): 'accepted' | 'refused' | 'against the rules' {
  const said = `${status} ${JSON.stringify(json)}`
  assert.ok(status < 500, said)
  const refusals = refusalsOf(document, operation, request)
  if (refusals !== undefined) {
    assert.ok(refusals.includes(json?.code), `${said}, not ${refusals}`)
    return 'refused'
  }
  if (status < 300) return 'accepted'
  const isOfRule = rulesOf(operation).includes(json?.code)
  const errors: { pointer: string; code: string }[] = json?.errors ?? []
  // Half a surrogate pair is no text, which a pattern cannot say.
  const isText = !/\\ud[89a-f]/.test(request.body ?? '')
  const isOfRules = errors.every(
    ({ pointer, code }) =>
      rulesOf(operation).includes(code) ||
      (!isText && code === 'invalid_format') ||
      RULES.some(([where, rule]) => where.test(pointer) && rule === code),
  )
  assert.ok(isOfRule || (errors.length > 0 && isOfRules), `${said}, though the document allows it`)
  return 'against the rules'
}

for (const operation of document.operations) {
  const { operationId } = operation
  t.test(`${operationId} accepts and refuses what the document says`, async (t) => {
    const counts = { accepted: 0, refused: 0, 'against the rules': 0 }
    const property = fc.asyncProperty(requestsOf(document, operation, likely), async (request) => {
      counts[judge(operation, request, await send(operation, request))] += 1
    })
    const examples = (FOUND[operationId] ?? []).map((it): [GeneratedRequest] => [it])
    await fc.assert(property, { numRuns: COUNT + examples.length, examples })
    t.comment(`${operationId}: ${JSON.stringify(counts)}, seed ${SEED}`)
    t.ok(counts.accepted > COUNT / 50, 'enough of them are accepted to mean something')
    t.ok(counts.refused > COUNT / 50, 'and enough refused')
  })
}
