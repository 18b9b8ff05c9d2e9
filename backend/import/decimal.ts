/** Converts the decimal amounts of files to integers in minor units, and formats such integers. Never uses floats. */
import { AMOUNT_MAX } from '../money/money.ts'

export interface DecimalForm {
  /** The number of decimals of the currency. */
  readonly exponent: number
  readonly decimalMark: '.' | ','
}

/** Digits in groups with the same separator: comma, full stop, apostrophe, space or no-break space. */
const GROUPED = /^\d{1,3}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*$/

/**
 * Returns the exact number of minor units; undefined if the text is not an amount of the currency from 1 minor unit to
 * `AMOUNT_MAX`. Thousands separators are accepted only in an amount with decimals, because "1,234" means 1234 in one
 * file and 1.234 in another, but "1,234.50" has a single meaning.
 */
export function parseDecimal(
  text: string,
  { exponent, decimalMark }: DecimalForm,
): number | undefined {
  const [integer = '', fraction = '', ...more] = text.split(decimalMark)
  const isGrouped = fraction !== '' && GROUPED.test(integer)
  const whole = isGrouped ? integer.replace(/\D/g, '') : integer
  // 15 digits are more than any amount has.
  const areDigits = /^\d{1,15}$/.test(whole) && /^\d{0,15}$/.test(fraction)
  if (!areDigits || more.length > 0 || text.endsWith(decimalMark)) return undefined
  // Nothing is rounded: "12.500" is exactly 12.50, but "12.505" is rejected if the currency has two decimals.
  if (/[1-9]/.test(fraction.slice(exponent))) return undefined
  const minor = BigInt(whole + fraction.slice(0, exponent).padEnd(exponent, '0'))
  return minor >= 1n && minor <= BigInt(AMOUNT_MAX) ? Number(minor) : undefined
}

/** Formats 14770318n in a currency with two decimals as "147,703.18". */
export function formatMinor(minor: bigint, exponent: number): string {
  const sign = minor < 0n ? '-' : ''
  const digits = (minor < 0n ? -minor : minor).toString().padStart(exponent + 1, '0')
  const whole = digits.slice(0, digits.length - exponent).replace(/\B(?=(\d{3})+$)/g, ',')
  return exponent === 0 ? sign + whole : `${sign}${whole}.${digits.slice(-exponent)}`
}
