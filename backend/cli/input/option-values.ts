/**
 * Parses the values of options. An empty value, e.g. of an unset shell variable, is rejected instead of being
 * read as a default.
 */
import { AMOUNT_MAX } from '../../money/money.ts'
import { splitList, UsageError } from '../command.ts'

/** Parses an amount in minor units. */
export function parseAmount(option: string, text: string): number {
  const amount = /^[1-9]\d{0,11}$/.test(text) ? Number(text) : Number.NaN
  if (amount <= AMOUNT_MAX) return amount
  throw new UsageError(
    `${option} must be a whole number of minor units from 1 to ${AMOUNT_MAX}, such as 1250 for 12.50, not ${text || 'empty'}`,
  )
}

/** `Number` alone would accept an empty text as 0, and `0x10` as 16. */
export function parseWholeNumber(option: string, text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new UsageError(`${option} must be a whole number, not ${text.trim() || 'empty'}`)
}

/** Splits `a,b` at the commas; `none` is the empty list. */
export function parseListOrNone(option: string, text: string): string[] {
  if (text === 'none') return []
  const parts = splitList(text)
  if (parts.length > 0) return parts
  throw new UsageError(`${option} is empty: give a list separated by commas, or the word none`)
}
