import t from 'tap'
import { canonicalJson, parseJsonObject } from '../../../backend/validation/json.ts'
import { Problem } from '../../../shared/contract/problem.ts'
import { throwsWith } from '../../fixtures/matches.ts'
import { fc } from '../../fixtures/properties.ts'

const parse = (text: string) => parseJsonObject(Buffer.from(text))

t.test('a JSON object is read as JSON.parse reads it', async () => {
  const object = fc
    .dictionary(fc.string(), fc.jsonValue({ maxDepth: 5 }))
    .filter((value) => !JSON.stringify(value).includes('__proto__'))
  fc.assert(
    fc.property(object, fc.constantFrom(0, 2, '\t'), (value, space) => {
      const text = JSON.stringify(value, undefined, space)
      return JSON.stringify(parse(text)) === JSON.stringify(JSON.parse(text))
    }),
  )
})

t.test('anything other than one JSON object in UTF-8 is malformed', async (t) => {
  const texts = [
    '',
    ' ',
    'null',
    '[]',
    '"a"',
    '1',
    '{',
    '{"a":1,}',
    "{'a':1}",
    '{"a":NaN}',
    '{} {}',
    '\ufeff{}',
  ]
  for (const text of texts) throwsWith(t, () => parse(text), { code: 'malformed_json' }, text)
  const invalidUtf8 = Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xc3, 0x28, 0x22, 0x7d])
  throwsWith(t, () => parseJsonObject(invalidUtf8), { code: 'malformed_json' })
})

t.test(
  'a duplicate name is reported with its pointer, at any depth and in any escaping',
  async (t) => {
    const cases = [
      ['{"amount":1,"amount":2}', '/amount'],
      ['{"amount":1,"\\u0061mount":2}', '/amount'],
      ['{"a":[{"b":1},{"c":{"d/e":1,"x":[],"d/e":2}}]}', '/a/1/c/d~1e'],
      ['{"":1,"":2}', '/'],
      ['{"a":{},"b":"\\"a\\":","a":1}', '/a'],
    ] as const
    for (const [text, pointer] of cases) {
      throwsWith(t, () => parse(text), { code: 'duplicate_json_key', members: { pointer } }, text)
    }
  },
)

t.test('the same name in different objects is not a duplicate', async (t) => {
  t.strictSame(parse('{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}],"c":"a"}'), {
    a: { a: { a: 1 } },
    b: [{ a: 1 }, { a: 2 }],
    c: 'a',
  })
})

t.test('a duplicate name is found at any position', async () => {
  const nested = fc.array(fc.constantFrom('object', 'array'), { maxLength: 10 })
  fc.assert(
    fc.property(nested, fc.string(), fc.jsonValue({ maxDepth: 2 }), (path, name, value) => {
      const member = `${JSON.stringify(name)}:${JSON.stringify(value)}`
      const text = path.reduce(
        (inner, kind) => (kind === 'object' ? `{"x":${inner}}` : `[0,${inner}]`),
        `{${member},${member}}`,
      )
      try {
        parse(`{"root":${text}}`)
        return false
      } catch (error) {
        return error instanceof Problem && error.code === 'duplicate_json_key'
      }
    }),
  )
})

t.test(
  'more than 20 levels are rejected, and 100,000 levels do not overflow the stack',
  async (t) => {
    const nest = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
    t.doesNotThrow(() => parse(nest(20)))
    throwsWith(t, () => parse(nest(21)), { code: 'malformed_json' })
    throwsWith(t, () => parse(nest(100_000)), { code: 'malformed_json' })
  },
)

t.test('more than 10,000 members and elements are rejected', async (t) => {
  // Regression: a body of 256 KiB blocked the backend for half a second. With 131,000 elements, the response was a 500,
  // because joi's list of errors overflowed the stack.
  const bodyWith = (values: number) => [
    `{"a":[${'0,'.repeat(values - 2)}0]}`,
    `{${Array.from({ length: values }, (_, n) => `"${n}":","`).join()}}`,
    `{"a":[${'{},'.repeat((values - 3) / 2)}{}]}`,
  ]
  for (const text of bodyWith(9_999)) t.doesNotThrow(() => parse(text))
  for (const text of bodyWith(10_003)) throwsWith(t, () => parse(text), { code: 'malformed_json' })
})

t.test('names that are special in JavaScript have no special effect', async (t) => {
  throwsWith(t, () => parse('{"a":{"__proto__":{"admin":true}}}'), {
    code: 'validation_failed',
    members: { errors: [{ pointer: '/a/__proto__', code: 'unknown_field' }] },
  })
  throwsWith(t, () => parse('{"__proto__":1,"__proto__":2}'), { code: 'duplicate_json_key' })
  const body = parse('{"constructor":{"prototype":{"x":1}},"toString":1,"hasOwnProperty":2}')
  t.strictSame(Object.keys(body), ['constructor', 'toString', 'hasOwnProperty'])
  t.notOk('x' in {})
})

t.test('equivalent bodies have the same canonical form', async (t) => {
  const same = ['{"b":1e2,"a":{"d":null,"c":-0}}', '{ "a": {"c": 0}, "b": 100.0, "e": null }']
  t.equal(new Set(same.map((text) => canonicalJson(parse(text)))).size, 1)
})

t.test('different bodies have different canonical forms', async (t) => {
  const different = [
    '{"a":1}',
    '{"a":"1"}',
    '{"a":[1]}',
    '{"a":[null,1]}',
    '{"a":1e999}',
    '{"a":true}',
    '{"a":{}}',
    '{}',
    '{"a":-1}',
  ]
  t.equal(new Set(different.map((text) => canonicalJson(parse(text)))).size, different.length)
})

t.test('the canonical form does not depend on the order of names', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const reversed = Object.fromEntries(Object.entries(value).reverse())
      return canonicalJson(value) === canonicalJson(reversed)
    }),
  )
})
