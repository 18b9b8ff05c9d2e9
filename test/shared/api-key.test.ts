import t from 'tap'
import { digestApiKey, mintApiKey, parseApiKey } from '../../shared/contract/api-key.ts'
import { fc } from '../fixtures/properties.ts'

const numRuns = Number(process.env['PROPERTY_RUNS'] ?? 2_000)

const key = fc.constant(null).map(mintApiKey)
const anyOffset = fc.integer({ min: 0, max: 61 })

t.test('a new key is parsed into the parts from which it was created', async (t) => {
  fc.assert(
    fc.property(key, (minted) => {
      t.strictSame(parseApiKey(minted.secret), minted)
    }),
    { numRuns: 100 },
  )
  t.equal(digestApiKey('a'), digestApiKey('a'))
  t.not(digestApiKey('a'), digestApiKey('b'))
})

t.test('a key with one character changed is rejected', async () => {
  fc.assert(
    fc.property(
      key,
      anyOffset,
      fc.string({ minLength: 1, maxLength: 1 }),
      ({ secret }, offset, other) => {
        fc.pre(secret.charAt(offset) !== other)
        return parseApiKey(secret.slice(0, offset) + other + secret.slice(offset + 1)) === undefined
      },
    ),
    { numRuns },
  )
})

t.test('a key with two adjacent characters swapped is rejected', async () => {
  fc.assert(
    fc.property(key, fc.integer({ min: 0, max: 60 }), ({ secret }, offset) => {
      fc.pre(secret.charAt(offset) !== secret.charAt(offset + 1))
      const swapped = secret.charAt(offset + 1) + secret.charAt(offset)
      return parseApiKey(secret.slice(0, offset) + swapped + secret.slice(offset + 2)) === undefined
    }),
    { numRuns },
  )
})

t.test('a key with characters added or removed is rejected', async () => {
  fc.assert(
    fc.property(key, fc.string({ minLength: 1 }), anyOffset, ({ secret }, more, offset) => {
      const wrong = [
        secret + more,
        more + secret,
        secret.slice(0, offset),
        secret.slice(offset + 1),
      ]
      return wrong.every((text) => parseApiKey(text) === undefined)
    }),
    { numRuns },
  )
})
