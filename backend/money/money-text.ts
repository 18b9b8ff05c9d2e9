import { currencyExponent } from './money.ts'

/** Formats an amount in minor units for a language: 123450 becomes e.g. `€1,234.50`. */
export function moneyText(amount: number, currency: string, language = 'en'): string {
  const exponent = currencyExponent(currency)
  const digits = String(Math.abs(amount)).padStart(exponent + 1, '0')
  const whole = digits.slice(0, digits.length - exponent)
  const fraction = digits.slice(digits.length - exponent)
  const sign = amount < 0 ? '-' : ''
  // The number `amount / 10 ** exponent` would be inexact for large amounts.
  const exact = `${sign}${whole}.${fraction || '0'}` as Intl.StringNumericLiteral
  return formatOf(language, currency, exponent).format(exact)
}

/** Formats an amount in minor units as a plain decimal such as `1234.50`, with as many decimals as the currency has. */
export function moneyDecimal(amount: number, currency: string): string {
  const exponent = currencyExponent(currency)
  const digits = String(Math.abs(amount)).padStart(exponent + 1, '0')
  const whole = digits.slice(0, digits.length - exponent)
  const fraction = exponent === 0 ? '' : `.${digits.slice(digits.length - exponent)}`
  return `${amount < 0 ? '-' : ''}${whole}${fraction}`
}

/** Formats are cached, because creating one takes 50 µs. There is one for each language and currency in use. */
const formats = new Map<string, Intl.NumberFormat>()

function formatOf(language: string, currency: string, exponent: number): Intl.NumberFormat {
  const key = `${language} ${currency}`
  const cached = formats.get(key)
  if (cached !== undefined) return cached
  const format = new Intl.NumberFormat(language, {
    style: 'currency',
    currency,
    minimumFractionDigits: exponent,
    maximumFractionDigits: exponent,
  })
  formats.set(key, format)
  return format
}
