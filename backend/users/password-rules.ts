import { Problem } from '../../shared/contract/problem.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { normalizeText } from '../validation/unicode.ts'
import { COMMON_PASSWORDS } from './common-passwords.ts'

const LENGTH_MIN = 8
const LENGTH_MAX = 256

/** For passwords that operators set. Throws `Problem` `validation_failed`. */
export function checkPasswordLength(password: string): void {
  const detail = lengthError(password)
  if (detail !== undefined) throw new Problem('validation_failed', detail)
}

/**
 * For passwords that users choose. Rejects, in addition to a wrong length, the passwords that attackers try first.
 * `email` is the user's address in lower case, as it is stored. Throws `Problem` `validation_failed` at `pointer`.
 */
export function checkChosenPassword(password: string, email: string, pointer: string): void {
  const lower = normalizeText(password, 'NFKC').toLowerCase()
  const isEasyToGuess =
    COMMON_PASSWORDS.has(lower) || lower === email || lower === email.split('@')[0]
  const detail =
    lengthError(password) ??
    (isEasyToGuess ? 'This password is easy to guess. Choose another password.' : undefined)
  if (detail === undefined) return
  throw enteredValuesProblem([{ pointer, code: 'invalid_format', detail }])
}

function lengthError(password: string): string | undefined {
  const length = [...password].length
  if (length >= LENGTH_MIN && length <= LENGTH_MAX) return undefined
  return `The password must have ${LENGTH_MIN} to ${LENGTH_MAX} characters.`
}
