/**
 * Generates requests from the OpenAPI document, and sends them to the running service. No request may get a 5xx. The
 * document must say whether the request is accepted or rejected, and the response must match the document.
 * GENERATED_REQUESTS sets the number of requests for each operation (default 200; high numbers need a longer --timeout
 * of tap), and SEED selects other requests.
 */
import assert from 'node:assert/strict'
import t from 'tap'
import { Agent } from 'undici'
import { type DocumentedOperation, readDocument } from '../../backend/docs/document.ts'
import { readContractDocument } from '../../shared/contract/contract.ts'
import { type GeneratedRequest, requestsOf } from '../fixtures/contract/generated-requests.ts'
import { rejectionsOf, wellFormedRejectionsOf } from '../fixtures/contract/request-rejections.ts'
import { fc, SEED } from '../fixtures/properties.ts'
import { call, type Response } from '../fixtures/service/call.ts'
import { startSystem } from '../fixtures/service/system.ts'

const COUNT = Number(process.env['GENERATED_REQUESTS'] ?? 200)

/** Requests whose response once deviated from the document. */
const FAILED_BEFORE: Readonly<Record<string, readonly GeneratedRequest[]>> = {
  listInvoices: [{ target: '/api/v1/invoices?cursor=', headers: {} }],
  createDebtor: [
    { target: '/api/v1/debtors', headers: {}, body: '{"name":"!","timezone":""}' },
    { target: '/api/v1/debtors', headers: {}, body: '{"name":"\u200b"}' },
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

/** Rules for bodies that the document states only in prose: a pattern for the field, and the code of the error. */
const RULES: readonly [pointer: RegExp, code: string][] = [
  [/^\/name$/, 'too_short'],
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

async function create(path: string, body: unknown): Promise<string> {
  const { status, json } = await call(`${url}/api/v1/${path}`, { key, body })
  assert.equal(status, 201, JSON.stringify(json))
  return json.id
}

const debtors = [
  await create('debtors', { name: 'Globex', external_id: 'C-1' }),
  await create('debtors', { name: 'Aoki Trading', external_id: 'C-2', currency: 'JPY' }),
]
const invoices: string[] = []
for (const [index, status] of [...Array(8).fill('open'), 'draft'].entries()) {
  const bill = { debtor_id: debtors[index % 2], currency: 'EUR', amount: 999_999_999_999, status }
  invoices.push(await create('invoices', bill))
}

const UNKNOWN = 'inv_01M481X3DTFXGMXYBP2GD0M5P8'
/** Values that the service is likely to accept, by the name of the field or schema. */
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

/** Sends the request unchanged, without the defaults of `call`. */
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

/**
 * Returns the outcome of the request: a rule in prose may forbid a request that the schemas allow. Throws if the
 * document requires another response.
 */
function outcomeOf(
  operation: DocumentedOperation,
  request: GeneratedRequest,
  { status, json }: Response,
): 'accepted' | 'rejected' | 'rejected by a rule' {
  const received = `${status} ${JSON.stringify(json)}`
  assert.ok(status < 500, received)
  const rejections = rejectionsOf(document, operation, request)
  if (rejections !== undefined) {
    assert.ok(rejections.includes(json?.code), `${received}, not ${rejections}`)
    return 'rejected'
  }
  if (status < 300) return 'accepted'
  const isCodeOfRule = wellFormedRejectionsOf(operation).includes(json?.code)
  const errors: { pointer: string; code: string }[] = json?.errors ?? []
  // Half a surrogate pair is not valid text, but no pattern can express this.
  const isText = !/\\ud[89a-f]/.test(request.body ?? '')
  const areErrorsOfRules = errors.every(
    ({ pointer, code }) =>
      wellFormedRejectionsOf(operation).includes(code) ||
      (!isText && code === 'invalid_format') ||
      RULES.some(([where, rule]) => where.test(pointer) && rule === code),
  )
  assert.ok(
    isCodeOfRule || (errors.length > 0 && areErrorsOfRules),
    `${received}, although the document allows the request`,
  )
  return 'rejected by a rule'
}

for (const operation of document.operations) {
  const { operationId } = operation
  t.test(`${operationId} accepts and rejects what the document says`, async (t) => {
    const counts = { accepted: 0, rejected: 0, 'rejected by a rule': 0 }
    const property = fc.asyncProperty(requestsOf(document, operation, likely), async (request) => {
      counts[outcomeOf(operation, request, await send(operation, request))] += 1
    })
    const examples = (FAILED_BEFORE[operationId] ?? []).map((request): [GeneratedRequest] => [
      request,
    ])
    await fc.assert(property, { numRuns: COUNT + examples.length, examples })
    t.comment(`${operationId}: ${JSON.stringify(counts)}, seed ${SEED}`)
    t.ok(counts.accepted > COUNT / 50, 'enough requests are accepted')
    t.ok(counts.rejected > COUNT / 50, 'enough requests are rejected')
  })
}
