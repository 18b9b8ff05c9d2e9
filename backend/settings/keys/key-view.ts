import { effectiveScopes, readScopes, SCOPES, type Scope } from '../../accounts/scopes.ts'
import {
  isUnused,
  keyStatus,
  readAllowedAddresses,
  UNUSED_DAYS,
} from '../../api-keys/key-status.ts'
import type { ApiKeyRow, KeyWindowRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { exactTime, SCOPE_WORDS, type TimeContext } from '../shell/words.ts'

/** `scopeAllowance` is the account's list of allowed scopes, in JSON; null allows all. */
export function representKey(row: ApiKeyRow, scopeAllowance: string | null, now: Date) {
  const scopes = readScopes(row.granted_scopes)
  return {
    id: row.id,
    object: 'api_key',
    name: row.name,
    prefix: row.prefix,
    scopes,
    effective_scopes: effectiveScopes(scopes, scopeAllowance),
    rate_limit: row.rate_limit,
    status: keyStatus(row, now),
    unused: isUnused(row, now),
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

export type WindowView = ReturnType<typeof representWindow>

/** Represents the key's current window. Between the end of a window and the key's next call, no window is open. */
export function representWindow(row: ApiKeyRow, { used, ends_at }: KeyWindowRow, now: Date) {
  const isOpen = ends_at > now.toISOString()
  return { used: isOpen ? used : 0, limit: row.rate_limit, resets_at: isOpen ? ends_at : null }
}

/** Returns the scopes that the account allows its keys to use. */
export function allowedScopes(scopeAllowance: string | null): readonly Scope[] {
  return scopeAllowance === null ? SCOPES : readScopes(scopeAllowance)
}

export function renderStatus(row: ApiKeyRow, { now, timezone }: TimeContext): Html {
  const time = (at: string) => html`<time datetime="${at}">${exactTime(at, timezone)}</time>`
  switch (keyStatus(row, now)) {
    case 'revoked':
      return html`<span class="badge">Revoked</span> <span class="stamp">${time(row.revoked_at ?? '')} by <span translate="no">${row.revoked_by}</span></span>`
    case 'expired':
      return html`<span class="badge">Expired</span> <span class="stamp">${time(row.expires_at ?? '')}</span>`
    case 'active':
      return html`<span class="badge active">Active</span>${
        isUnused(row, now) &&
        html` <span class="badge warning">Unused for ${UNUSED_DAYS} days</span>`
      }${row.expires_at !== null && html` <span class="stamp">until ${time(row.expires_at)}</span>`}`
  }
}

/** Scopes that the account currently does not allow are struck out. */
export function renderScopes(row: ApiKeyRow, scopeAllowance: string | null): Html {
  const granted = readScopes(row.granted_scopes)
  const effective = effectiveScopes(granted, scopeAllowance)
  const hasNoScope = effective.length === 0
  return html`<ul class="chips">${granted.map((scope) =>
    effective.includes(scope)
      ? html`<li title="${scope}">${SCOPE_WORDS[scope]}</li>`
      : html`<li class="off" title="${scope}"><s>${SCOPE_WORDS[scope]}</s> <span>disabled account-wide</span></li>`,
  )}</ul>${hasNoScope && html`<p class="hint">This key can only call /api/v1/me.</p>`}`
}
