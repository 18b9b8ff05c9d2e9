/** Adds up an invoice's lines. Taxes come from the client's accounting system and are never computed. */

import { AMOUNT_MAX, lineAmount, type Quantity } from '../money/money.ts'
import type { FieldError } from '../validation/field-errors.ts'

export interface NewLine {
  readonly description: string
  readonly quantity: Quantity
  readonly unitAmount: number
  readonly taxAmount: number
}

/** A line as stored and shown. */
export interface Line {
  readonly description: string
  readonly quantity: Quantity
  readonly unit_amount: number
  readonly tax_amount: number
  /** quantity × unit_amount without tax, rounded to the minor unit. */
  readonly amount: number
}

export interface Totals {
  readonly amount: number
  readonly lines: readonly Line[]
}

export interface TotalsRejection {
  readonly errors: readonly FieldError[]
  /** Additional members of the problem document. They are used only if the body has no other error. */
  readonly members: Readonly<Record<string, unknown>>
}

/**
 * Returns the amount and the lines of an invoice, or the reasons why they are rejected. The client sends the amount,
 * the lines or both; if it sends both, its `amount` must be the total of the lines, with taxes.
 */
export function totalsOf(
  amount: number | undefined,
  lines: readonly NewLine[],
): Totals | TotalsRejection {
  if (lines.length === 0 && amount !== undefined) return { amount, lines: [] }
  const amounts = lines.map(({ quantity, unitAmount }) => lineAmount(quantity, unitAmount))
  const inexact = amounts.flatMap((value, index) =>
    Number.isSafeInteger(Number(value)) ? [] : [tooLarge(`/line_items/${index}`)],
  )
  if (inexact.length > 0) return { errors: inexact, members: {} }
  const taxes = lines.map(({ taxAmount }) => BigInt(taxAmount))
  const total = [...amounts, ...taxes].reduce((sum, value) => sum + value, 0n)
  if (total < 1n || total > BigInt(AMOUNT_MAX)) {
    const detail = `line_items must add up to between 1 and ${AMOUNT_MAX}, not ${total}`
    return { errors: [{ pointer: '/line_items', code: 'out_of_range', detail }], members: {} }
  }
  const expected = Number(total)
  if (amount !== undefined && amount !== expected) return totalMismatch(expected, amount)
  return { amount: expected, lines: lines.map((line, index) => storedLine(line, amounts[index])) }
}

function storedLine(line: NewLine, amount = 0n): Line {
  return {
    description: line.description,
    quantity: line.quantity,
    unit_amount: line.unitAmount,
    tax_amount: line.taxAmount,
    amount: Number(amount),
  }
}

function tooLarge(pointer: string): FieldError {
  const detail = 'quantity × unit_amount is too large to be stored exactly'
  return { pointer, code: 'out_of_range', detail }
}

function totalMismatch(expected: number, actual: number): TotalsRejection {
  const detail = `amount is ${actual}, but the line items add up to ${expected}`
  return {
    errors: [{ pointer: '/amount', code: 'total_mismatch', detail }],
    members: { expected, actual },
  }
}
