import { readScopes } from '../accounts/scopes.ts'
import type { ApiKeyRow } from '../database/tables.ts'
import { keyStatus, readAllowedAddresses } from './key-status.ts'

/** The JSON of a key in events. */
export function representApiKey(row: ApiKeyRow, now: Date) {
  return {
    object: 'api_key',
    id: row.id,
    label: row.name,
    prefix: row.prefix,
    status: keyStatus(row, now),
    granted_scopes: readScopes(row.granted_scopes),
    rate_limit: row.rate_limit,
    expires_at: row.expires_at,
    allowed_addresses: readAllowedAddresses(row.allowed_addresses),
    replaced_by: row.replaced_by,
    created_at: row.created_at,
    created_by: row.created_by,
    last_used_at: row.last_used_at,
    revoked_at: row.revoked_at,
    revoked_by: row.revoked_by,
  }
}
