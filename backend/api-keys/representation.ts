import { readScopes } from '../accounts/scopes.ts'
import type { ApiKeyRow } from '../database/tables.ts'

/** A key as events show it: the members of GET /me, and whether it still is one. No secret. */
export function renderApiKey(row: ApiKeyRow) {
  return {
    object: 'api_key',
    id: row.id,
    label: row.name,
    prefix: row.prefix,
    status: row.revoked_at === null ? 'active' : 'revoked',
    granted_scopes: readScopes(row.granted_scopes),
    rate_limit: row.rate_limit,
    created_at: row.created_at,
    created_by: row.created_by,
    last_used_at: row.last_used_at,
    revoked_at: row.revoked_at,
    revoked_by: row.revoked_by,
  }
}
