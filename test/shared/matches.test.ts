import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { containing, matches, rejectsWith, throwsWith } from '../fixtures/matches.ts'

const isSame = (found: unknown, wanted: unknown) => isDeepStrictEqual(found, wanted)

/** Returns whether `matches` accepts the value. A rejection does not fail this test. */
function accepted(found: unknown, pattern: unknown): boolean {
  return matches({ currentAssert: undefined, strictSame: isSame }, found, pattern)
}

const INVOICE = { status: 'partially_paid', amount_due: 600, tags: ['a', 'b'], notes: null }

t.test('members that the pattern does not name may have any value', async (t) => {
  t.ok(accepted(INVOICE, { status: 'partially_paid', notes: null }))
  t.ok(accepted({ data: [{ id: 1, name: 'x' }] }, { data: [{ id: 1 }] }))
  t.ok(accepted(new Error('gone'), { message: 'gone' }), 'the class may differ')
})

const REJECTED: [found: unknown, pattern: unknown, why: string][] = [
  [INVOICE, { status: 'paid' }, 'a substring'],
  ['600', '0', 'a substring'],
  [INVOICE, { tags: ['a'] }, 'the first of two elements'],
  [INVOICE, { tags: [] }, 'an empty array for two elements'],
  [INVOICE, { tags: ['b', 'a'] }, 'another order'],
  [INVOICE, { tags: ['a', 'b', undefined] }, 'one element too few'],
  [INVOICE, { amount_due: '600' }, 'text for a number'],
  [INVOICE, { notes: undefined }, 'null for undefined'],
  [INVOICE, { notes: {} }, 'null for an object'],
  [INVOICE, { absent: String }, 'a type for a missing member'],
  [INVOICE, {}, 'members for an empty object'],
  [{ data: [{ id: 1 }, { id: 2 }] }, { data: [{ id: 1 }] }, 'a longer list of objects'],
  [[], { length: 0 }, 'an array for an object'],
  [undefined, /e/, 'nothing for text'],
  [600, /0/, 'a number for text'],
  [undefined, {}, 'nothing for an empty object'],
  ['', Object, 'text for an instance'],
]

t.test('everything that the pattern names is compared exactly', async (t) => {
  for (const [found, pattern, why] of REJECTED) t.notOk(accepted(found, pattern), `rejects ${why}`)
})

t.test(
  'a pattern for a value is a regular expression, a type, a class, or a predicate',
  async (t) => {
    const found = { id: 'inv_1', amount: 600, paid: false, at: new Date(0), tags: [1] }
    t.ok(accepted(found, { id: /^inv_/, amount: Number, paid: Boolean, at: Date, tags: Array }))
    t.ok(accepted(found, { id: String, amount: (amount: unknown) => amount === 600 }))
    t.notOk(accepted(found, { amount: (amount: unknown) => amount === 601 }))
    t.notOk(accepted(found, { at: Number }))
    const everywhere = /inv/g
    t.ok(
      accepted(['inv', 'inv'], [everywhere, everywhere]),
      'the lastIndex of the expression has no effect',
    )
  },
)

t.test('a part of a text matches only with containing()', async (t) => {
  t.ok(accepted('cost: $1.50 (all)', containing('$1.50 (all)')))
  t.notOk(accepted('cost: $1x50', containing('$1.50')))
  throwsWith(t, () => containing(''), /every string/)
})

const FAILURE = Object.assign(new Error('1 of 2 rows'), { code: 'payments_refused', rows: [1, 2] })
const fail = () => {
  throw FAILURE
}
const NOT_FAILURE: [pattern: unknown, why: string][] = [
  [{ code: 'payments' }, 'a substring'],
  [{ rows: [1] }, 'the first of two elements'],
  [{ message: 'rows' }, 'a part of the message'],
  [/3 rows/, 'another message'],
  [{ absent: undefined, code: null }, 'a member that has a value'],
  [TypeError, 'another class'],
]

t.test('errors are compared as exactly as other values', async (t) => {
  const checked = { currentAssert: undefined, strictSame: isSame }
  for (const pattern of [{ code: 'payments_refused', rows: [1, 2] }, /2 rows$/, Error]) {
    t.ok(throwsWith(checked, fail, pattern))
    t.ok(await rejectsWith(checked, Promise.reject(FAILURE), pattern))
    t.ok(await rejectsWith(checked, async () => fail(), pattern))
    t.notOk(
      throwsWith(checked, () => FAILURE, pattern),
      'the function returns the error',
    )
    t.notOk(
      await rejectsWith(checked, Promise.resolve(FAILURE), pattern),
      'the promise resolves with the error',
    )
  }
  for (const [pattern, why] of NOT_FAILURE) {
    t.notOk(throwsWith(checked, fail, pattern), `throwsWith rejects ${why}`)
    t.notOk(
      await rejectsWith(checked, Promise.reject(FAILURE), pattern),
      `rejectsWith rejects ${why}`,
    )
  }
})

t.test('a failure shows only the members that the pattern names', async (t) => {
  const shown: unknown[] = []
  const record = {
    currentAssert: undefined,
    strictSame: (...compared: unknown[]) => shown.push(...compared) < 0,
  }
  matches(record, INVOICE, { status: 'paid', notes: /x/ }, 'the invoice')
  t.strictSame(shown, [
    { status: 'partially_paid', notes: null },
    { status: 'paid', notes: /x/ },
    'the invoice',
  ])
})
