import { object, optional, required, requiredNotNull } from '../api/body.ts'
import { isQuantity, QUANTITY_MAX, type Quantity } from '../money/money.ts'
import {
  type Check,
  integer,
  matching,
  Rejection,
  signedAmount,
  text,
} from '../validation/fields.ts'
import type { NewLine } from './lines.ts'

export interface LineBody {
  readonly description: string
  readonly quantity?: Quantity
  readonly unit_amount: number
  readonly tax_amount?: number
}

const wholeQuantity = integer({ min: 1, max: QUANTITY_MAX })
const decimalText = matching(/^\d{1,7}(?:\.\d{1,6})?$/, 'a decimal like "7.5"', { max: 14 })

const quantity: Check<Quantity> = (value) => {
  if (typeof value !== 'string') return wholeQuantity(value)
  const decimal = decimalText(value)
  return decimal instanceof Rejection || isQuantity(decimal)
    ? decimal
    : new Rejection('out_of_range', `must be more than 0 and at most ${QUANTITY_MAX}`)
}

export const lineBody = object<LineBody>({
  description: required(text({ max: 500, lines: true })),
  quantity: optional(quantity),
  unit_amount: requiredNotNull(signedAmount),
  tax_amount: optional(signedAmount),
})

export function newLine(line: LineBody): NewLine {
  return {
    description: line.description,
    quantity: line.quantity ?? 1,
    unitAmount: line.unit_amount,
    taxAmount: line.tax_amount ?? 0,
  }
}
