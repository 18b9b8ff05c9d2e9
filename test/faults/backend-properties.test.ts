import t from 'tap'
import { type CursorScope, signCursor, verifyCursor } from '../../backend/api/cursor.ts'
import { type NewLine, totalsOf } from '../../backend/invoices/lines.ts'
import { AMOUNT_MAX, isQuantity } from '../../backend/money/money.ts'
import { fc } from '../fixtures/properties.ts'

const CURSOR_KEYS = [Buffer.alloc(32, 1)]

const text = fc.string({ unit: 'grapheme', maxLength: 20 })
const listQuery: fc.Arbitrary<CursorScope> = fc.record({
  accountId: text,
  operationId: text,
  sort: text,
  filters: fc.dictionary(text, fc.oneof(text, fc.boolean(), fc.array(text, { maxLength: 3 })), {
    maxKeys: 4,
  }),
})
const position = fc.record({ value: text, id: text })

function isValid(keys: readonly Buffer[], listQuery: CursorScope, cursor: string): boolean {
  try {
    verifyCursor(keys, listQuery, cursor)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'invalid_cursor') return false
    throw error
  }
}

t.test('a verified cursor has the position for which it was signed', async (t) => {
  fc.assert(
    fc.property(listQuery, position, (listQuery, position) => {
      const cursor = signCursor(CURSOR_KEYS, listQuery, position)
      const found = verifyCursor(CURSOR_KEYS, listQuery, cursor)
      return found.value === position.value && found.id === position.id && /^[\w-]+$/.test(cursor)
    }),
  )
  t.pass()
})

t.test('a cursor is valid only for its own account, list, sort and filters', async (t) => {
  fc.assert(
    fc.property(listQuery, listQuery, position, (mine, other, position) => {
      const cursor = signCursor(CURSOR_KEYS, mine, position)
      const mixed = [
        { ...mine, accountId: other.accountId },
        { ...mine, operationId: other.operationId },
        { ...mine, sort: other.sort },
        { ...mine, filters: other.filters },
      ]
      return mixed.every(
        (listQuery) => isValid(CURSOR_KEYS, listQuery, cursor) === isSame(listQuery, mine),
      )
    }),
  )
  t.pass()
})

t.test('a cursor that was changed, shortened or extended is rejected', async (t) => {
  const change = fc.oneof(
    fc.record({ kind: fc.constant('flip' as const), at: fc.nat(), bit: fc.nat(7) }),
    fc.record({ kind: fc.constant('cut' as const), at: fc.nat(), bit: fc.constant(0) }),
    fc.record({ kind: fc.constant('grow' as const), at: fc.nat(255), bit: fc.constant(0) }),
  )
  fc.assert(
    fc.property(listQuery, position, change, (listQuery, position, { kind, at, bit }) => {
      const bytes = Buffer.from(signCursor(CURSOR_KEYS, listQuery, position), 'base64url')
      const offset = at % bytes.length
      if (kind === 'flip') bytes.writeUInt8(bytes.readUInt8(offset) ^ (1 << bit), offset)
      const changed =
        kind === 'cut'
          ? bytes.subarray(0, offset)
          : kind === 'grow'
            ? Buffer.concat([bytes, Buffer.of(at)])
            : bytes
      return !isValid(CURSOR_KEYS, listQuery, changed.toString('base64url'))
    }),
  )
  fc.assert(
    fc.property(
      listQuery,
      fc.string(),
      (listQuery, text) => !isValid(CURSOR_KEYS, listQuery, text),
    ),
  )
  t.pass()
})

/** Compares queries of lists regardless of the order of their filters. */
function isSame(a: CursorScope, b: CursorScope): boolean {
  const sorted = ({ filters }: CursorScope) =>
    Object.entries(filters).toSorted(([one], [other]) => (one < other ? -1 : 1))
  const fieldsOf = (listQuery: CursorScope) =>
    JSON.stringify([listQuery.accountId, listQuery.operationId, listQuery.sort, sorted(listQuery)])
  return fieldsOf(a) === fieldsOf(b)
}

const quantity = (max: number) =>
  fc.oneof(
    fc.integer({ min: 1, max }),
    fc
      .tuple(fc.nat(max - 1), fc.stringMatching(/^\d{1,6}$/))
      .map(([whole, fraction]) => `${whole}.${fraction}`)
      .filter(isQuantity),
  )
const linesOf = (quantityMax: number, unitAmount: fc.Arbitrary<number>) =>
  fc.array(
    fc.record({
      description: fc.constant('Work'),
      quantity: quantity(quantityMax),
      unitAmount,
      taxAmount: fc.integer({ min: 0, max: 1_000_000 }),
    }),
    { minLength: 1, maxLength: 20 },
  )
const lines = fc.oneof(
  linesOf(1_000, fc.integer({ min: -1_000, max: 100_000 })),
  linesOf(1_000_000, fc.integer({ min: -AMOUNT_MAX, max: AMOUNT_MAX })),
)

/** Multiplies without a rounding error, and then rounds to the nearest integer, halves away from zero. */
function exactAmount({ quantity, unitAmount }: NewLine): bigint {
  const [whole = '', fraction = ''] = String(quantity).split('.')
  const denominator = 10n ** BigInt(fraction.length)
  const numerator = BigInt(whole + fraction) * BigInt(unitAmount)
  const floor =
    (numerator - (((numerator % denominator) + denominator) % denominator)) / denominator
  const twiceRest = 2n * (numerator - floor * denominator)
  if (twiceRest === denominator) return numerator < 0n ? floor : floor + 1n
  return twiceRest > denominator ? floor + 1n : floor
}

t.test('the total of an invoice equals the total that exact fractions give', async (t) => {
  let accepted = 0
  fc.assert(
    fc.property(lines, (lines) => {
      const amounts = lines.map(exactAmount)
      const total = lines.reduce(
        (sum, { taxAmount }, index) => sum + BigInt(taxAmount) + (amounts[index] ?? 0n),
        0n,
      )
      const exact = amounts.every((value) => Number.isSafeInteger(Number(value)))
      const fits = exact && total >= 1n && total <= BigInt(AMOUNT_MAX)
      const totals = totalsOf(undefined, lines)
      if ('errors' in totals) return !fits
      accepted++
      return (
        fits &&
        BigInt(totals.amount) === total &&
        totals.lines.every(({ amount }, index) => BigInt(amount) === amounts[index])
      )
    }),
    { numRuns: 1_000 },
  )
  t.ok(accepted > 100)
})

t.test(
  'an amount that is sent with lines is accepted only if it is the sum of the lines',
  async (t) => {
    fc.assert(
      fc.property(lines, fc.integer({ min: 1, max: AMOUNT_MAX }), (lines, amount) => {
        const own = totalsOf(undefined, lines)
        const requested = totalsOf(amount, lines)
        if ('errors' in own) return 'errors' in requested
        if (own.amount === amount) return !('errors' in requested)
        return 'errors' in requested && requested.members['expected'] === own.amount
      }),
    )
    t.pass()
  },
)
