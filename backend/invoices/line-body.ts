import joi from 'joi'
import { isQuantity, QUANTITY_MAX, type Quantity } from '../money/money.ts'
import { object, optional, required, requiredNotNull } from '../validation/body.ts'
import { integer, matching, signedAmount, text } from '../validation/fields.ts'
import type { NewLine } from './lines.ts'

export interface LineBody {
  readonly description: string
  readonly quantity?: Quantity
  readonly unit_amount: number
  readonly tax_amount?: number
}

const wholeQuantity = integer({ min: 1, max: QUANTITY_MAX })
const decimalText = matching(/^\d{1,7}(?:\.\d{1,6})?$/, 'a decimal like "7.5"', { max: 14 })

// Without `allow`, an empty text would not count as a text, and would get the error for integers.
const quantity = joi.alternatives().conditional(joi.string().allow(''), {
  // The text of `number.positive` also names the limit, so the error fits both zero and a quantity that is too large.
  // biome-ignore lint/suspicious/noThenProperty: joi gives the option this name.
  then: decimalText.custom((value: string, helpers) =>
    isQuantity(value) ? value : helpers.error('number.positive', { limit: QUANTITY_MAX }),
  ),
  otherwise: wholeQuantity,
})

export const lineBody = object<LineBody>({
  description: required(text({ max: 500, multiline: true })),
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
