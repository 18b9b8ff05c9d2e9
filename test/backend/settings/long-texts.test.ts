// Regression: a login whose address or password contained 120,000 combining marks blocked the backend for 20 seconds,
// because the time to normalize a text is quadratic in their number. No key or password was needed.
import t from 'tap'
import { normalizeEmail } from '../../../backend/users/users.ts'
import { normalizeText } from '../../../backend/validation/unicode.ts'

const marks = (count: number) => '\u0301\u0323'.repeat(count / 2)

t.test('a text with more than 30 combining marks in a row is not normalized', async (t) => {
  t.equal(normalizeText(`a${marks(30)}`, 'NFC'), `a${marks(30)}`.normalize('NFC'))
  t.equal(normalizeText(`a${marks(32)}`, 'NFC'), `a${marks(32)}`)
  t.equal(normalizeText(`a${marks(32)}`, 'NFKC'), `a${marks(32)}`)
  // Half-width sound marks become combining marks in NFKC.
  const halfWidth = '\u0301\uff9e'.repeat(16)
  t.equal(normalizeText(halfWidth, 'NFKC'), halfWidth)
  t.equal(normalizeText('ｶﾞ', 'NFKC'), 'ガ')
  t.equal(normalizeEmail(`a${marks(32)}@acme.example`), `a${marks(32)}@acme.example`)
})
