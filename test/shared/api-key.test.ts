import fc from 'fast-check'
import t from 'tap'
import { digestApiKey, mintApiKey, parseApiKey } from '../../shared/contract/api-key.ts'

const seed = Number(process.env['PROPERTY_SEED'] ?? Date.now() % 2 ** 31)
const numRuns = Number(process.env['PROPERTY_RUNS'] ?? 2_000)
t.comment(`seed ${seed}`)

const key = fc.constant(null).map(mintApiKey)
const place = fc.integer({ min: 0, max: 61 })

t.test('a minted key reads back as itself', async (t) => {
  fc.assert(
    fc.property(key, (minted) => {
      t.strictSame(parseApiKey(minted.secret), minted)
    }),
    { seed, numRuns: 100 },
  )
  t.equal(digestApiKey('a'), digestApiKey('a'))
  t.not(digestApiKey('a'), digestApiKey('b'))
})

t.test('a key with one character changed is refused', async () => {
  fc.assert(
    fc.property(key, place, fc.string({ minLength: 1, maxLength: 1 }), ({ secret }, at, other) => {
      fc.pre(secret.charAt(at) !== other)
      return parseApiKey(secret.slice(0, at) + other + secret.slice(at + 1)) === undefined
    }),
    { seed, numRuns },
  )
})

t.test('a key with two neighbours swapped is refused', async () => {
  fc.assert(
    fc.property(key, fc.integer({ min: 0, max: 60 }), ({ secret }, at) => {
      fc.pre(secret.charAt(at) !== secret.charAt(at + 1))
      const swapped = secret.charAt(at + 1) + secret.charAt(at)
      return parseApiKey(secret.slice(0, at) + swapped + secret.slice(at + 2)) === undefined
    }),
    { seed, numRuns },
  )
})

t.test('a key with something before, behind or missing is refused', async () => {
  fc.assert(
    fc.property(key, fc.string({ minLength: 1 }), place, ({ secret }, more, at) => {
      const wrong = [secret + more, more + secret, secret.slice(0, at), secret.slice(at + 1)]
      return wrong.every((text) => parseApiKey(text) === undefined)
    }),
    { seed, numRuns },
  )
})
