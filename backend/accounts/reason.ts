import type { Problem } from '../../shared/contract/problem.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { normalizeText, trimText } from '../validation/unicode.ts'

const REASON_MAX = 500

/**
 * Checks the reason that a person enters for an action, such as reversing a payment. Returns it normalized. Throws
 * `validation_failed` at `/reason`.
 */
export function checkReason(text: string): string {
  const reason = normalizeText(trimText(text), 'NFC')
  if (reason === '') throw invalidReason('required', 'Enter a reason.')
  if ([...reason].length > REASON_MAX) {
    throw invalidReason('too_long', `The reason may have at most ${REASON_MAX} characters.`)
  }
  if (!reason.isWellFormed() || /\p{Cc}/u.test(reason.replace(/[\t\n\r]/g, ''))) {
    throw invalidReason('invalid_format', 'The reason contains a character that is not allowed.')
  }
  return reason
}

function invalidReason(code: string, detail: string): Problem {
  return enteredValuesProblem([{ pointer: '/reason', code, detail }])
}
