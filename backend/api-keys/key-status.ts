import { readAddressPrefixes } from '../../shared/contract/address-prefixes.ts'
import type { ApiKeyRow } from '../database/tables.ts'

const DAY_MS = 86_400_000
export const UNUSED_DAYS = 90

export type KeyStatus = 'active' | 'expired' | 'revoked'

/**
 * `expired_at` makes the expiry final for every backend. Without it, a backend whose clock is behind would
 * still accept a key that was reported as expired.
 */
export function isExpired(
  { expires_at, expired_at }: Pick<ApiKeyRow, 'expires_at' | 'expired_at'>,
  now: Date,
): boolean {
  return expired_at !== null || (expires_at !== null && expires_at <= now.toISOString())
}

export function keyStatus(
  row: Pick<ApiKeyRow, 'revoked_at' | 'expires_at' | 'expired_at'>,
  now: Date,
): KeyStatus {
  if (row.revoked_at !== null) return 'revoked'
  return isExpired(row, now) ? 'expired' : 'active'
}

/**
 * Whether the key is active but has not been used for `UNUSED_DAYS`. A key that was never used counts as unused since
 * its creation.
 */
export function isUnused(row: ApiKeyRow, now: Date): boolean {
  const since = row.last_used_at ?? row.created_at
  return (
    keyStatus(row, now) === 'active' && now.getTime() - Date.parse(since) >= UNUSED_DAYS * DAY_MS
  )
}

const WARNINGS_BEFORE_MS = [14 * DAY_MS, DAY_MS]

/**
 * Returns the instant of the next warning after `after` or, if no warning is left, of the expiry. Null if the
 * key does not expire.
 */
export function nextWarningOrExpiry(expiresAt: string | null, after: Date): string | null {
  if (expiresAt === null) return null
  const warnings = WARNINGS_BEFORE_MS.map((ms) => Date.parse(expiresAt) - ms)
  const next = warnings.find((at) => at > after.getTime())
  return next === undefined ? expiresAt : new Date(next).toISOString()
}

/** Parses the column `allowed_addresses`. Returns null if all addresses are allowed. */
export function readAllowedAddresses(json: string | null): readonly string[] | null {
  return json === null ? null : JSON.parse(json).map(String)
}

/**
 * `allowedAddresses` is the JSON of the column `allowed_addresses`. A client whose address is unknown is allowed only
 * if all addresses are allowed.
 */
export function isAddressAllowed(
  allowedAddresses: string | null,
  address: string | undefined,
): boolean {
  const prefixes = readAllowedAddresses(allowedAddresses)
  if (prefixes === null) return true
  return address !== undefined && readAddressPrefixes(prefixes).contain(address)
}
