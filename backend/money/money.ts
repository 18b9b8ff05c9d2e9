/**
 * Money is an integer in the currency's minor unit. The amounts and the total of an invoice's lines are computed as
 * BigInt, and converted to numbers only if a number can represent them exactly.
 */
import assert from 'node:assert'
import { CURRENCY_EXPONENTS } from './currencies.ts'

/**
 * The largest amount, in minor units. A sum of thousands of such amounts is still below 2^53, so that a number
 * represents it exactly.
 */
export const AMOUNT_MAX = 999_999_999_999

/** A whole number, or a decimal string with at most six decimal places. */
export type Quantity = number | string
export const QUANTITY_MAX = 1_000_000
const QUANTITY_PLACES_MAX = 6
const DECIMAL = /^(\d{1,7})(?:\.(\d{1,6}))?$/
/** Quantities are computed as integers in millionths (micros). */
const MICRO = 10n ** BigInt(QUANTITY_PLACES_MAX)

/** Returns the currency code in upper case; undefined if the currency is not supported. */
export function parseCurrency(text: string): string | undefined {
  // This check must come before toUpperCase, which turns some other letters into ASCII letters ("ı" into "I").
  if (!/^[A-Za-z]{3}$/.test(text)) return undefined
  const code = text.toUpperCase()
  return CURRENCY_EXPONENTS.has(code) ? code : undefined
}

/** The number of decimals of the currency. */
export function currencyExponent(currency: string): number {
  const exponent = CURRENCY_EXPONENTS.get(currency)
  assert(exponent !== undefined, `${currency} was accepted but is not in the table`)
  return exponent
}

export function isQuantity(quantity: Quantity): boolean {
  const micros = quantityMicros(quantity)
  return micros !== undefined && micros > 0n && micros <= BigInt(QUANTITY_MAX) * MICRO
}

/**
 * Returns quantity × unit amount, with halves rounded away from zero. A line with a negative unit amount, e.g. a
 * discount, therefore exactly cancels the line with the same positive amount. Both arguments must be valid.
 */
export function lineAmount(quantity: Quantity, unitAmount: number): bigint {
  const micros = quantityMicros(quantity)
  assert(micros !== undefined, 'the quantity was checked before')
  const product = micros * BigInt(unitAmount)
  const magnitude = product < 0n ? -product : product
  const rounded = (magnitude + MICRO / 2n) / MICRO
  return product < 0n ? -rounded : rounded
}

function quantityMicros(quantity: Quantity): bigint | undefined {
  if (typeof quantity === 'number') {
    return Number.isSafeInteger(quantity) ? BigInt(quantity) * MICRO : undefined
  }
  const [, whole, fraction = ''] = DECIMAL.exec(quantity) ?? []
  if (whole === undefined) return undefined
  return BigInt(whole + fraction.padEnd(QUANTITY_PLACES_MAX, '0'))
}
