/** The scopes, in the order of the API's documentation. */
import { Problem } from '../../shared/contract/problem.ts'

export const SCOPES = [
  'debtors:read',
  'debtors:write',
  'invoices:read',
  'invoices:write',
  'payments:read',
  'payments:write',
  'messages:read',
] as const

export type Scope = (typeof SCOPES)[number]

/**
 * Returns each scope once, in the documentation's order. Throws `Problem` `validation_failed` for unknown
 * names.
 */
export function parseScopes(names: readonly string[]): Scope[] {
  const unknown = names.filter((name) => !SCOPES.some((scope) => scope === name))
  if (unknown.length > 0) {
    throw new Problem(
      'validation_failed',
      `There is no scope ${unknown.join(', ')}. The scopes are ${SCOPES.join(', ')}.`,
    )
  }
  return SCOPES.filter((scope) => names.includes(scope))
}

/** Parses a column that contains scopes as a JSON array. Ignores names that are not scopes of this version. */
export function readScopes(column: string): Scope[] {
  const names: unknown = JSON.parse(column)
  return SCOPES.filter((scope) => Array.isArray(names) && names.includes(scope))
}

/** Returns the granted scopes that the account allows. `allowance` is the column `scope_allowance`; null allows all. */
export function effectiveScopes(granted: readonly Scope[], allowance: string | null): Scope[] {
  if (allowance === null) return [...granted]
  const allowed = readScopes(allowance)
  return granted.filter((scope) => allowed.includes(scope))
}
