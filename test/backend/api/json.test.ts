import t from 'tap'
import { canonicalJson, parseJsonObject } from '../../../backend/validation/json.ts'
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

t.test('what is not one JSON object in UTF-8 is malformed', async (t) => {
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

t.test('a name that occurs twice is named, at any depth and however it is written', async (t) => {
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
})

t.test('the same name in different objects is no duplicate', async (t) => {
  t.strictSame(parse('{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}],"c":"a"}'), {
    a: { a: { a: 1 } },
    b: [{ a: 1 }, { a: 2 }],
    c: 'a',
  })
})

t.test('wherever a name is doubled, it is found', async () => {
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
        return error instanceof Error && 'code' in error && error.code !== 'malformed_json'
      }
    }),
  )
})

t.test('nesting has an end, and what is far beyond it does no harm', async (t) => {
  const nest = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
  t.doesNotThrow(() => parse(nest(20)))
  throwsWith(t, () => parse(nest(21)), { code: 'malformed_json' })
  throwsWith(t, () => parse(nest(100_000)), { code: 'malformed_json' })
})

t.test('names that mean something to JavaScript mean nothing', async (t) => {
  throwsWith(t, () => parse('{"a":{"__proto__":{"admin":true}}}'), {
    code: 'validation_failed',
    members: { errors: [{ pointer: '/a/__proto__', code: 'unknown_field' }] },
  })
  throwsWith(t, () => parse('{"__proto__":1,"__proto__":2}'), { code: 'duplicate_json_key' })
  const body = parse('{"constructor":{"prototype":{"x":1}},"toString":1,"hasOwnProperty":2}')
  t.strictSame(Object.keys(body), ['constructor', 'toString', 'hasOwnProperty'])
  t.notOk('x' in {})
})

t.test('bodies that mean the same have one canonical form', async (t) => {
  const same = ['{"b":1e2,"a":{"d":null,"c":-0}}', '{ "a": {"c": 0}, "b": 100.0, "e": null }']
  t.equal(new Set(same.map((text) => canonicalJson(parse(text)))).size, 1)
})

t.test('bodies that differ have different ones', async (t) => {
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

t.test('canonical form does not depend on the order of names', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const reversed = Object.fromEntries(Object.entries(value).reverse())
      return canonicalJson(value) === canonicalJson(reversed)
    }),
  )
})
