import t from 'tap'
import { CURRENCY_EXPONENTS } from '../../../backend/money/currencies.ts'
import {
  AMOUNT_MAX,
  currencyExponent,
  isQuantity,
  lineAmount,
  parseCurrency,
} from '../../../backend/money/money.ts'
import { moneyDecimal, moneyText } from '../../../backend/money/money-text.ts'
import { fc } from '../../fixtures/properties.ts'

t.test('currencies have the exponents of ISO 4217, even if ICU shows fewer decimals', async (t) => {
  const expected = { EUR: 2, HUF: 2, IDR: 2, COP: 2, JPY: 0, KRW: 0, UGX: 0, ISK: 0 }
  for (const [code, exponent] of Object.entries({ ...expected, KWD: 3, IQD: 3, CLF: 4, UYW: 4 })) {
    t.equal(currencyExponent(code), exponent, code)
  }
})

t.test(
  'every currency of ICU is supported, except withdrawn ones and those without a minor unit',
  async (t) => {
    const missing = Intl.supportedValuesOf('currency').filter(
      (code) => !CURRENCY_EXPONENTS.has(code),
    )
    t.strictSame(missing, ['ANG', 'BGN', 'CUC', 'HRK', 'SLL', 'XDR', 'XSU', 'ZWL'])
    t.ok([...CURRENCY_EXPONENTS.keys()].every((code) => /^[A-Z]{3}$/.test(code)))
  },
)

t.test('a currency is accepted in any case and stored in upper case', async (t) => {
  t.equal(parseCurrency('eur'), 'EUR')
  t.equal(parseCurrency('JpY'), 'JPY')
})

t.test('unknown codes and codes without a minor unit are rejected', async (t) => {
  for (const code of ['XAU', 'XDR', 'XXX', 'XTS', 'XBT', 'EU', 'EURO', '', ' EUR', 'ıNR']) {
    t.equal(parseCurrency(code), undefined, code)
  }
})

t.test('the amount of a line is rounded once, with halves away from zero', async (t) => {
  t.equal(lineAmount('0.5', 1), 1n)
  t.equal(lineAmount('0.5', -1), -1n)
  t.equal(lineAmount('0.499999', 1), 0n)
  t.equal(lineAmount('7.5', 9500), 71250n)
  t.equal(lineAmount('0.333333', 3), 1n)
  t.equal(lineAmount(1_000_000, AMOUNT_MAX), 999_999_999_999_000_000n)
})

t.test('a quantity is greater than zero and at most a million', async (t) => {
  for (const quantity of [1, 1_000_000, '0.000001', '1000000', '1000000.000000', '007']) {
    t.ok(isQuantity(quantity), String(quantity))
  }
  for (const quantity of [
    0,
    -1,
    1.5,
    1_000_001,
    '0',
    '0.000000',
    '1000000.000001',
    '-1',
    '1e3',
    '.5',
    '1.',
    '1.0000001',
    '',
  ]) {
    t.notOk(isQuantity(quantity), String(quantity))
  }
})

const micros = fc.bigInt({ min: 1n, max: 10n ** 12n })
const unitAmount = fc.integer({ min: -AMOUNT_MAX, max: AMOUNT_MAX })

t.test('for every line, the amount is the nearest integer to the exact product', async () => {
  fc.assert(
    fc.property(micros, unitAmount, (quantity, unit) => {
      const text = `${quantity / 1_000_000n}.${String(quantity % 1_000_000n).padStart(6, '0')}`
      const twiceTheError = 2n * (lineAmount(text, unit) * 1_000_000n - quantity * BigInt(unit))
      const distance = twiceTheError < 0n ? -twiceTheError : twiceTheError
      return distance <= 1_000_000n
    }),
  )
})

t.test('for every line, the same line with a negated amount cancels it exactly', async () => {
  fc.assert(
    fc.property(micros, unitAmount, (quantity, unit) => {
      const text = `${quantity / 1_000_000n}.${String(quantity % 1_000_000n).padStart(6, '0')}`
      return lineAmount(text, unit) + lineAmount(text, -unit) === 0n
    }),
  )
})

t.test('amounts are formatted exactly, with the decimals of our currency table', async (t) => {
  t.equal(moneyText(123_450, 'EUR'), '€1,234.50')
  t.equal(moneyText(5, 'EUR'), '€0.05')
  t.equal(moneyText(-5, 'EUR'), '-€0.05')
  t.equal(moneyText(1_000, 'JPY'), '¥1,000')
  // The runtime's own table has no decimals for HUF.
  t.equal(moneyText(123_450, 'HUF').replace(/\s/, ' '), 'HUF 1,234.50')
  t.equal(moneyText(1_234, 'KWD').replace(/\s/, ' '), 'KWD 1.234')
  t.equal(moneyText(9_007_199_254_740_991, 'EUR'), '€90,071,992,547,409.91')
  t.equal(moneyText(123_450, 'EUR', 'de').replace(/\s/, ' '), '1.234,50 €')
})

t.test(
  'a plain decimal has a digit before the point, and the decimals of its currency',
  async (t) => {
    t.equal(moneyDecimal(123_450, 'EUR'), '1234.50')
    t.equal(moneyDecimal(5, 'EUR'), '0.05')
    t.equal(moneyDecimal(-5, 'KWD'), '-0.005')
    t.equal(moneyDecimal(5, 'JPY'), '5')
  },
)
