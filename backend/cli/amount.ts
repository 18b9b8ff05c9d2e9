import { AMOUNT_MAX } from '../money/money.ts'
import { UsageError } from './command.ts'

/** Parses an amount in minor units from a command-line option. */
export function parseAmount(option: string, text: string): number {
  const amount = /^[1-9]\d{0,11}$/.test(text) ? Number(text) : Number.NaN
  if (amount <= AMOUNT_MAX) return amount
  throw new UsageError(
    `${option} must be a whole number of minor units, such as 1250 for 12.50, not ${text || 'empty'}`,
  )
}
