/** A range of amounts in major units, as people enter it, e.g. from 1000 to 2500.50. It applies to every currency. */
import { currencyExponent } from './money.ts'

/** Both limits are inclusive, and are decimal numbers as text (see `isDecimal`). */
export interface AmountRange {
  readonly min: string | undefined
  readonly max: string | undefined
}

export function isDecimal(text: string): boolean {
  return /^\d{1,12}(?:\.\d{1,4})?$/.test(text)
}

/**
 * `amount` is in minor units. Compares without rounding, in ten-thousandths of a major unit: no currency has more than
 * four decimals.
 */
export function isInRange(amount: number, currency: string, { min, max }: AmountRange): boolean {
  const exponent = currencyExponent(currency)
  const scaled = BigInt(amount) * 10n ** BigInt(4 - exponent)
  if (min !== undefined && scaled < tenThousandths(min)) return false
  return max === undefined || scaled <= tenThousandths(max)
}

function tenThousandths(decimal: string): bigint {
  const [whole = '0', fraction = ''] = decimal.split('.')
  return BigInt(whole + fraction.padEnd(4, '0'))
}
