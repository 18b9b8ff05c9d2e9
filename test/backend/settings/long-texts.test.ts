// Regression: a login whose address or password contained 120,000 combining marks blocked the backend for 20 seconds,
// because the time to normalize a text is quadratic in their number. No key or password was needed.
import { globSync, readFileSync } from 'node:fs'
import t from 'tap'
import { normalizeEmail } from '../../../backend/users/users.ts'
import { normalizeText } from '../../../backend/validation/unicode.ts'
import { matches } from '../../fixtures/matches.ts'
import { JSON_ONLY, startSettings } from '../../fixtures/service/settings.ts'

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

// Regression: a code of the second factor with 100,000 combining marks blocked the backend for 15 seconds.
t.test(
  'no other code of the backend normalizes texts, except fields, which reject such marks',
  async (t) => {
    const files = globSync('backend/**/*.ts').sort()
    t.strictSame(
      files.filter((file) => readFileSync(file, 'utf8').includes('.normalize(')),
      ['backend/validation/fields.ts', 'backend/validation/unicode.ts'],
    )
  },
)

// Regression: a request with an e-mail address whose host has 5,000 letters blocked the backend for 0.2 seconds,
// because the time to convert a host to ASCII is quadratic in its length. No login was needed.
t.test('a host that is too long to exist is not converted to ASCII', async (t) => {
  const hostOf = (length: number) => `${'ü'.repeat(50)}.${'a'.repeat(length - 54)}.de`
  t.not(normalizeEmail(`a@${hostOf(253)}`), `a@${hostOf(253)}`)
  t.equal(normalizeEmail(`a@${hostOf(254)}`), `a@${hostOf(254)}`)
  const { backend } = await startSettings(t)
  const email = `a@${'ü'.repeat(5000)}.de`
  for (const path of ['/settings/password-reset', '/settings/login']) {
    const response = await backend.request('POST', path, {
      headers: JSON_ONLY,
      body: { email, password: 'x' },
    })
    matches(t, response.status, path.endsWith('login') ? 401 : 422)
  }
})
