import { readFileSync } from 'node:fs'
import { load } from 'js-yaml'
import t, { type Test } from 'tap'
import { loadContract } from '../../shared/contract/contract.ts'
import { PROBLEM_TYPES } from '../../shared/contract/problem.ts'
import { matches, throwsWith } from '../fixtures/matches.ts'

const source: unknown = load(
  readFileSync(new URL('../../shared/contract/openapi.yaml', import.meta.url), 'utf8'),
)

t.test('the contract has the ten operations of the public API, with their scopes', async (t) => {
  const { operations, scopes } = loadContract()
  t.strictSame(
    operations.map(({ operationId, method, path, scope }) => [operationId, method, path, scope]),
    [
      ['getMe', 'GET', '/api/v1/me', undefined],
      ['listDebtors', 'GET', '/api/v1/debtors', 'debtors:read'],
      ['createDebtor', 'POST', '/api/v1/debtors', 'debtors:write'],
      ['getDebtor', 'GET', '/api/v1/debtors/{id}', 'debtors:read'],
      ['listInvoices', 'GET', '/api/v1/invoices', 'invoices:read'],
      ['createInvoice', 'POST', '/api/v1/invoices', 'invoices:write'],
      ['getInvoice', 'GET', '/api/v1/invoices/{id}', 'invoices:read'],
      ['listPayments', 'GET', '/api/v1/payments', 'payments:read'],
      ['createPayment', 'POST', '/api/v1/payments', 'payments:write'],
      ['listMessages', 'GET', '/api/v1/messages', 'messages:read'],
    ],
  )
  t.strictSame(scopes, [
    'debtors:read',
    'debtors:write',
    'invoices:read',
    'invoices:write',
    'payments:read',
    'payments:write',
    'messages:read',
  ])
})

t.test(
  'the three operations that create objects accept an Idempotency-Key, and no others',
  async (t) => {
    const idempotent = loadContract().operations.filter((operation) => operation.idempotent)
    t.strictSame(
      idempotent.map(({ operationId }) => operationId),
      ['createDebtor', 'createInvoice', 'createPayment'],
    )
    t.equal(valueAt('#/components/parameters/IdempotencyKey/required'), false)
    t.equal(valueAt('#/components/parameters/RequiredIdempotencyKey/required'), true)
  },
)

t.test('every reference resolves', async (t) => {
  const references = [...referencesIn(source)]
  t.ok(references.length > 100)
  for (const reference of new Set(references)) t.not(valueAt(reference), undefined, reference)
})

t.test('every operation documents the expected statuses, and no others', async (t) => {
  const common = [
    '400',
    '401',
    '403',
    '406',
    '408',
    '414',
    '429',
    '431',
    '500',
    '502',
    '503',
    '504',
  ]
  for (const { operationId, method, path } of loadContract().operations) {
    const expected = [
      ...common,
      'default',
      ...(path.includes('{id}') ? ['404'] : []),
      ...(method === 'POST' ? ['201', '409', '413', '415', '422', '423'] : ['200']),
    ]
    const responses = valueAt(
      `#/paths/${path.replaceAll('/', '~1')}/${method.toLowerCase()}/responses`,
    )
    t.strictSame(Object.keys(Object(responses)).sort(), expected.sort(), operationId)
  }
})

t.test('the documented codes, statuses and titles equal those of PROBLEM_TYPES', async (t) => {
  t.strictSame(
    new Set(Object.values(Object(valueAt('#/components/schemas/ProblemCode/enum')))),
    new Set(Object.keys(PROBLEM_TYPES)),
  )
  const examples = Object.entries(Object(valueAt('#/components/examples')))
  const documented = examples
    .map(([name]) => valueAt(`#/components/examples/${name}/value`))
    .map(Object)
  for (const [code, { status, title, retryable }] of Object.entries(PROBLEM_TYPES)) {
    const example = documented.find((value) => value['code'] === code)
    matches(t, example, { code, status, title, retryable }, code)
    t.equal(new URL(example['type']).hash, `#${code}`)
  }
})

t.test(
  'the error about an unusable document names the fault, and the operation if there is one',
  async (t) => {
    const operation = "{ operationId: a, security: [{ key: ['x:read'] }] }"
    const cases: [name: string, paths: string, fault: RegExp][] = [
      ['no paths', '[]', /paths is not an object/],
      ['no operations', '{ /a: { summary: nothing } }', /paths has no operations/],
      [
        'no operationId',
        '{ /a: { get: { security: [{ key: [] }] } } }',
        /GET \/a: operationId is m/,
      ],
      [
        'the same operationId twice',
        `{ /a: { get: ${operation}, put: ${operation} } }`,
        /PUT \/a: the operationId a is used twice/,
      ],
      ['no security', '{ /a: { get: { operationId: a } } }', /GET \/a: security is missing/],
      ['no scheme', withSecurity('[{}]'), /GET \/a: security must name exactly one scheme/],
      ['public', withSecurity('[]'), /GET \/a: security is missing/],
      ['a choice of schemes', withSecurity('[{ key: [] }, { other: [] }]'), /exactly one scheme/],
      ['two schemes', withSecurity('[{ key: [], other: [] }]'), /exactly one scheme/],
      ['an unknown scheme', withSecurity('[{ nokey: [] }]'), /securitySchemes\/nokey is missing/],
      [
        'a scheme that is not bearer',
        withSecurity('[{ other: [] }]'),
        /other is not an HTTP bearer/,
      ],
      ['two scopes', withSecurity("[{ key: ['x:read', 'y:read'] }]"), /at most one scope/],
      ['a scope that is a number', withSecurity('[{ key: [1] }]'), /security is not a string/],
      [
        'a method that is not routed',
        `{ /a: { trace: ${operation} } }`,
        /\/a: trace cannot be routed/,
      ],
      ['a path item in another file', "{ /a: { $ref: 'x.yaml' } }", /\/a: \$ref cannot be routed/],
      [
        'a parameter that is only a part of a segment',
        `{ '/a/{id}.json': { get: ${operation} } }`,
        /must consist of plain segments/,
      ],
      ['a parameter that is missing', withParameter('#/components/parameters/B'), /B is missing/],
      [
        'a parameter in another file',
        withParameter('x.yaml#/B'),
        /x.yaml#\/B is outside the document/,
      ],
    ]
    for (const [name, paths, fault] of cases) {
      throwsWith(t, () => loadContract(writeDocument(t, paths)), { message: fault }, name)
    }
  },
)

t.test('the error for a file that cannot be read names the file', async (t) => {
  const folder = t.testdir({ 'broken.yaml': 'paths: [' })
  throwsWith(t, () => loadContract(`${folder}/broken.yaml`), {
    message: /broken\.yaml is not a usable/,
  })
  throwsWith(t, () => loadContract(`${folder}/none.yaml`), { message: /none\.yaml .*ENOENT/ })
})

t.test(
  'Idempotency-Key may be declared without a reference, for a whole path, and in lower case',
  async (t) => {
    const parameter = '{ name: idempotency-key, in: header }'
    const operation = '{ operationId: a, security: [{ key: [] }] }'
    const paths = `{ /a: { parameters: [${parameter}], x-note: 1, delete: ${operation} } }`
    t.strictSame(loadContract(writeDocument(t, paths)), {
      operations: [
        { operationId: 'a', method: 'DELETE', path: '/a', scope: undefined, idempotent: true },
      ],
      scopes: [],
    })
  },
)

function writeDocument(t: Test, paths: string): string {
  const schemes = '{ key: { type: http, scheme: bearer }, other: { type: apiKey } }'
  const text = `paths: ${paths}\ncomponents: { securitySchemes: ${schemes}, parameters: {} }\n`
  return `${t.testdir({ 'openapi.yaml': text })}/openapi.yaml`
}

function withSecurity(security: string): string {
  return `{ /a: { get: { operationId: a, security: ${security} } } }`
}

function withParameter(reference: string): string {
  const parameters = `[{ $ref: '${reference}' }]`
  return `{ /a: { get: { operationId: a, security: [{ key: [] }], parameters: ${parameters} } } }`
}

function valueAt(reference: string): unknown {
  const path = reference.split('/').slice(1)
  const names = path.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
  return names.reduce((value: unknown, name) => Object(value)[name], source)
}

function* referencesIn(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (name === '$ref') yield String(member)
    else yield* referencesIn(member)
  }
}
