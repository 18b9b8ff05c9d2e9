// Checks which changes count as breaking. Most cases change one member of a small document.
import t from 'tap'
import { readContractDocument } from '../../shared/contract/contract.ts'
import { breakingChanges } from '../fixtures/contract/breaking-changes.ts'

/** A contract in which debtors can be listed and created, and an event reports new debtors. */
const DOCUMENT = {
  paths: {
    '/debtors': {
      get: {
        security: [{ bearerKey: ['debtors:read'] }],
        parameters: [{ name: 'limit', in: 'query', schema: { type: 'integer', maximum: 200 } }],
        responses: { 200: respond({ type: 'array', items: { $ref: '#/schemas/Debtor' } }) },
      },
      post: {
        security: [{ bearerKey: ['debtors:write'] }],
        requestBody: body({ $ref: '#/schemas/DebtorCreate' }),
        responses: { 201: respond({ $ref: '#/schemas/Debtor' }) },
      },
    },
  },
  webhooks: {
    'debtor.created': { post: { requestBody: body({ $ref: '#/schemas/Debtor' }) } },
  },
  schemas: {
    DebtorCreate: {
      type: 'object',
      required: ['name'],
      additionalProperties: false,
      properties: {
        name: { type: 'string', maxLength: 200 },
        language: { type: ['string', 'null'], enum: ['nl', 'en', null] },
        terms: { type: 'number' },
      },
    },
    Debtor: {
      allOf: [
        {
          type: 'object',
          required: ['id'],
          properties: { id: { type: 'string', pattern: '^deb_' } },
        },
        {
          required: ['name', 'status'],
          properties: {
            name: { type: 'string', maxLength: 200 },
            status: { type: 'string', enum: ['active', 'archived'] },
            note: { type: ['string', 'null'] },
          },
        },
      ],
    },
  },
}

function body(schema: object) {
  return { required: true, content: { 'application/json': { schema } } }
}

function respond(schema: object) {
  const headers = { Location: { required: true, schema: { type: 'string' } } }
  return { headers, content: { 'application/json': { schema } } }
}

/** Returns the document with `value` at the path, or without the member if `value` is undefined. */
function changed(path: string, value?: unknown): unknown {
  const names = path.split(' ')
  const last = names.pop() ?? ''
  const document = structuredClone(DOCUMENT)
  // biome-ignore lint/suspicious/noExplicitAny: the test changes members of any type.
  const target = names.reduce<any>((value, name) => value[name], document)
  if (value === undefined) delete target[last]
  else target[last] = value
  return document
}

const CREATE = 'schemas DebtorCreate'
const DEBTOR = 'schemas Debtor allOf 1'
const POST = 'paths /debtors post'
const LIST = 'paths /debtors get'

t.test('changing or removing something on which clients rely is breaking', async (t) => {
  const cases: readonly [path: string, value: unknown, line: string][] = [
    [POST, undefined, 'POST /debtors: operation → gone'],
    ['webhooks debtor.created', undefined, 'debtor.created: event → gone'],
    [
      `${LIST} security`,
      [{ bearerKey: ['all'] }],
      'GET /debtors: security [{"bearerKey":["debtors:read"]}] → [{"bearerKey":["all"]}]',
    ],
    [`${LIST} parameters 0 name`, 'size', 'GET /debtors query limit: parameter → gone'],
    [`${LIST} parameters 0 required`, true, 'GET /debtors query limit: required false → true'],
    [`${LIST} parameters 0 schema maximum`, 100, 'GET /debtors query limit: maximum 200 → 100'],
    [`${LIST} parameters 0 schema minimum`, 1, 'GET /debtors query limit: minimum none → 1'],
    [`${CREATE} properties terms`, undefined, 'request DebtorCreate/terms: field → gone'],
    [`${CREATE} required`, ['name', 'terms'], 'request DebtorCreate/terms: required false → true'],
    [
      `${CREATE} properties terms type`,
      'integer',
      'request DebtorCreate/terms: type ["number"] → ["integer"]',
    ],
    [
      `${CREATE} properties language enum`,
      ['nl', null],
      'request DebtorCreate/language: enum ["nl","en",null] → ["nl",null]',
    ],
    [
      `${CREATE} properties name pattern`,
      '^[A-Z]',
      'request DebtorCreate/name: pattern none → "^[A-Z]"',
    ],
    [`${CREATE} properties name maxLength`, 80, 'request DebtorCreate/name: maxLength 200 → 80'],
    [`${POST} responses`, { 200: {} }, 'POST /debtors 201: response → gone'],
    [`${POST} responses 202`, {}, 'POST /debtors 202: response none → new'],
    [
      `${POST} responses 201 headers Location`,
      undefined,
      'POST /debtors 201 Location: header → gone',
    ],
    [
      `${POST} responses 201 headers Location required`,
      false,
      'POST /debtors 201 Location: required true → false',
    ],
    [
      `${POST} responses 201 content`,
      { 'text/xml': {} },
      'POST /debtors 201 application/json: media type → gone',
    ],
    [`${DEBTOR} properties name`, undefined, 'response Debtor/name: field → gone'],
    [`${DEBTOR} required`, ['name'], 'response Debtor/status: required true → false'],
    [
      `${DEBTOR} properties name type`,
      ['string', 'null'],
      'response Debtor/name: type ["string"] → ["string","null"]',
    ],
    [`${DEBTOR} properties name maxLength`, 300, 'response Debtor/name: maxLength 200 → 300'],
    [
      'schemas Debtor allOf 0 properties id pattern',
      undefined,
      'response Debtor/id: pattern "^deb_" → none',
    ],
  ]
  for (const [path, value, line] of cases) {
    t.ok(breakingChanges(DOCUMENT, changed(path, value)).includes(line), line)
  }
})

t.test(
  'additions and relaxations that the documentation announces as possible are not breaking',
  async (t) => {
    const cases: readonly [path: string, value: unknown][] = [
      ['paths /payments', { get: { responses: {} } }],
      ['webhooks debtor.archived', {}],
      [`${LIST} parameters 1`, { name: 'q', in: 'query', schema: { type: 'string' } }],
      [`${LIST} parameters 0 schema maximum`, 500],
      [`${CREATE} properties email`, { type: 'string' }],
      [`${CREATE} required`, []],
      [`${CREATE} properties language enum`, ['nl', 'en', 'fr', null]],
      [`${CREATE} properties name maxLength`, undefined],
      [`${CREATE} properties name description`, 'A name.'],
      [`${DEBTOR} properties email`, { type: 'string' }],
      [`${DEBTOR} properties status enum`, ['active', 'archived', 'merged']],
      [`${DEBTOR} properties note type`, 'string'],
      [`${DEBTOR} properties name maxLength`, 100],
      [`${POST} responses 409`, {}],
    ]
    for (const [path, value] of cases) {
      t.strictSame(breakingChanges(DOCUMENT, changed(path, value)), [], path)
    }
  },
)

t.test(
  'removing a field from the contract is a breaking change, and changing nothing is none',
  async (t) => {
    const document = JSON.parse(readContractDocument().json)
    t.strictSame(breakingChanges(document, document), [])
    const { PaymentCreate } = document.components.schemas
    const without = structuredClone(document)
    delete without.components.schemas.PaymentCreate.properties.reference
    t.ok(PaymentCreate.properties.reference)
    t.strictSame(breakingChanges(document, without), [
      'request PaymentCreate/reference: field → gone',
    ])
  },
)
