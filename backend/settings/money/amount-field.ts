import { AMOUNT_MAX, currencyExponent } from '../../money/money.ts'

const GROUPED = /^[1-9]\d{0,2}(?:[, '’\u{a0}\u{202f}]\d{3})+(?:\.\d*)?$/u
const PLAIN = /^\d+(?:\.\d*)?$/
/** `1234,50`, `1.234,50` or `1 234,50`: one or two digits after a comma cannot be a group of thousands. */
const WITH_COMMA = /^(?:\d+|[1-9]\d{0,2}(?:[. '’\u{a0}\u{202f}]\d{3})+),\d{1,2}$/u

/**
 * Returns the amount in minor units, e.g. 123450 for `1,234.50` or `1.234,50`. If the text is invalid, returns how a
 * sentence about the amount ends, e.g. `must be more than 0`. `1,500`, which means different amounts in different
 * countries, is always read like `1500`.
 */
export function readAmountText(text: string, currency: string): number | string {
  const trimmed = text.trim()
  const digits = WITH_COMMA.test(trimmed)
    ? trimmed.replace(/[^\d,]/g, '').replace(',', '.')
    : trimmed.replace(/[^\d.]/g, '')
  const exponent = currencyExponent(currency)
  const example = exponent === 0 ? '1234' : `1234.${'50'.padEnd(exponent, '0').slice(0, exponent)}`
  const isNumber = [GROUPED, PLAIN, WITH_COMMA].some((pattern) => pattern.test(trimmed))
  if (!isNumber) return `must be a number such as ${example}`
  const [whole = '', fraction = ''] = digits.split('.')
  if (fraction.length > exponent) {
    return exponent === 0
      ? `must have no decimals in ${currency}`
      : `must have at most ${exponent} decimals in ${currency}`
  }
  const amount = Number(whole + fraction.padEnd(exponent, '0'))
  if (amount === 0) return 'must be more than 0'
  return amount <= AMOUNT_MAX ? amount : 'is too large'
}

/** Formats an amount in minor units as the value of a form field, e.g. as `1234.50`. */
export function amountText(amount: number, currency: string): string {
  const exponent = currencyExponent(currency)
  const digits = String(amount).padStart(exponent + 1, '0')
  const whole = digits.slice(0, digits.length - exponent)
  return exponent === 0 ? whole : `${whole}.${digits.slice(-exponent)}`
}
