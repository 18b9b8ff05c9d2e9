import { ADDRESS_PREFIXES_MAX, parsePrefix } from '../../shared/contract/address-prefixes.ts'
import type { FieldError } from '../../shared/contract/problem.ts'
import { parseScopes, type Scope } from '../accounts/scopes.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { normalizeText, trimText } from '../validation/unicode.ts'

const NAME_LENGTH_MAX = 80
/**
 * Ten years and a few days; no key should be valid for longer. The limit also keeps the year of an expiry to four
 * digits, so that the stored texts sort by time.
 */
const LIFETIME_DAYS_MAX = 3660
const DAY_MS = 86_400_000

export interface KeyInput {
  readonly name: string
  readonly scopes: readonly string[]
  /** Null if the key does not expire. */
  readonly expiresAt: Date | null
  /** Address prefixes or addresses. An empty list allows any address. */
  readonly allowedAddresses: readonly string[]
}

export interface CheckedKeyInput {
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly expiresAt: string | null
  /** The JSON text of the database column; null allows any address. */
  readonly allowedAddresses: string | null
}

/**
 * Throws `Problem` `validation_failed` with all field errors. Unknown scopes are reported only if there are no other
 * errors.
 */
export function checkKeyInput(input: KeyInput, now: Date): CheckedKeyInput {
  const name = normalizeName(input.name)
  const addresses = canonicalAddresses(input.allowedAddresses)
  // The specification of the API prescribes this text.
  const noScopes: FieldError = {
    pointer: '/scopes',
    code: 'required',
    detail: 'Choose at least one thing the key may do.',
  }
  const errors = [
    ...nameErrors(name),
    ...(input.scopes.length === 0 ? [noScopes] : []),
    ...expiryErrors(input.expiresAt, now),
    ...addresses.errors,
  ]
  if (errors.length > 0) throw enteredValuesProblem(errors)
  return {
    name,
    scopes: parseScopes(input.scopes),
    expiresAt: input.expiresAt?.toISOString() ?? null,
    allowedAddresses: addresses.stored,
  }
}

export function normalizeName(name: string): string {
  return normalizeText(trimText(name), 'NFC')
}

/** `name` must be normalized. */
export function nameErrors(name: string): FieldError[] {
  const error = (code: string, detail: string) => [{ pointer: '/name', code, detail }]
  if (name === '') return error('required', 'Give the key a name.')
  if ([...name].length > NAME_LENGTH_MAX) {
    return error('too_long', `The name may have at most ${NAME_LENGTH_MAX} characters.`)
  }
  if (name.isWellFormed() && !/\p{Cc}/u.test(name)) return []
  return error('invalid_format', 'The name must not contain control characters or invalid Unicode.')
}

export function expiryErrors(expiresAt: Date | null, now: Date): FieldError[] {
  if (expiresAt === null) return []
  const pointer = '/expires_at'
  const days = (expiresAt.getTime() - now.getTime()) / DAY_MS
  if (days <= 0) {
    return [{ pointer, code: 'out_of_range', detail: 'The expiry must be in the future.' }]
  }
  if (days <= LIFETIME_DAYS_MAX) return []
  const lifetime = `${LIFETIME_DAYS_MAX.toLocaleString('en')} days (about ten years)`
  return [
    { pointer, code: 'out_of_range', detail: `The expiry may be at most ${lifetime} from now.` },
  ]
}

/**
 * Returns the addresses as they are stored, in canonical form and without duplicates; null allows any address. If there
 * are errors, `stored` must not be used.
 */
export function canonicalAddresses(texts: readonly string[]): {
  readonly stored: string | null
  readonly errors: FieldError[]
} {
  const pointer = '/allowed_addresses'
  if (texts.length > ADDRESS_PREFIXES_MAX) {
    const detail = `A key may have at most ${ADDRESS_PREFIXES_MAX} allowed addresses.`
    return { stored: null, errors: [{ pointer, code: 'too_long', detail }] }
  }
  const parsed = texts.map(parsePrefix)
  const errors = parsed.flatMap((result) =>
    'fault' in result ? [{ pointer, code: 'invalid_format', detail: result.fault }] : [],
  )
  const prefixes = new Set(parsed.flatMap((result) => ('prefix' in result ? [result.prefix] : [])))
  return { stored: prefixes.size === 0 ? null : JSON.stringify([...prefixes]), errors }
}
