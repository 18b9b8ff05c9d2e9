/** Parses amounts from forms and from scripts. */
import { AMOUNT_MAX, currencyExponent } from '../../money/money.ts'

const GROUPED = /^\d{1,3}(?:[, '’\u{a0}\u{202f}]\d{3})+(?:\.\d*)?$/u
const PLAIN = /^\d+(?:\.\d*)?$/

/**
 * Returns minor units of an amount such as `1,234.50`, or a description of the fault. A comma is never the
 * decimal mark: the meaning of `1,500` must not depend on the reader's country.
 */
export function readAmountText(text: string, currency: string): number | string {
  const trimmed = text.trim()
  const exponent = currencyExponent(currency)
  const example = exponent === 0 ? '1234' : `1234.${'50'.padEnd(exponent, '0').slice(0, exponent)}`
  if (!GROUPED.test(trimmed) && !PLAIN.test(trimmed)) return `must be a number such as ${example}`
  const [whole = '', fraction = ''] = trimmed.replace(/[^\d.]/g, '').split('.')
  if (fraction.length > exponent) {
    return exponent === 0
      ? `has no decimals in ${currency}`
      : `has at most ${exponent} decimals in ${currency}`
  }
  const amount = Number(whole + fraction.padEnd(exponent, '0'))
  if (amount === 0) return 'must be more than 0'
  return amount <= AMOUNT_MAX ? amount : 'is too large'
}

/** Formats the value of a form field, e.g. `1234.50`. */
export function amountText(amount: number, currency: string): string {
  const exponent = currencyExponent(currency)
  const digits = String(amount).padStart(exponent + 1, '0')
  const whole = digits.slice(0, digits.length - exponent)
  return exponent === 0 ? whole : `${whole}.${digits.slice(-exponent)}`
}
