import { currencyExponent } from './money.ts'

/**
 * An amount in minor units as people write it in their language, e.g. `€1,234.50`: with as many
 * decimals as our table has, which are not always those of the browser's or the runtime's.
 */
export function moneyText(amount: number, currency: string, language = 'en'): string {
  const exponent = currencyExponent(currency)
  const digits = String(Math.abs(amount)).padStart(exponent + 1, '0')
  const whole = digits.slice(0, digits.length - exponent)
  const fraction = digits.slice(digits.length - exponent)
  const sign = amount < 0 ? '-' : ''
  // As text, which is taken exactly: a number would be rounded beyond 2^53.
  const exact = `${sign}${whole}.${fraction || '0'}` as Intl.StringNumericLiteral
  return formatOf(language, currency, exponent).format(exact)
}

/** Making one costs 50 µs. Bounded by the currencies and languages there are. */
const formats = new Map<string, Intl.NumberFormat>()

function formatOf(language: string, currency: string, exponent: number): Intl.NumberFormat {
  const name = `${language} ${currency}`
  const known = formats.get(name)
  if (known !== undefined) return known
  const format = new Intl.NumberFormat(language, {
    style: 'currency',
    currency,
    minimumFractionDigits: exponent,
    maximumFractionDigits: exponent,
  })
  formats.set(name, format)
  return format
}
