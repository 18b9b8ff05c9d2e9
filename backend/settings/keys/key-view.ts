/** An API key as Settings shows it, to scripts and to people. */
import { effectiveScopes, readScopes, SCOPES, type Scope } from '../../accounts/scopes.ts'
import type { ApiKeyRow, KeyWindowRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { SCOPE_WORDS } from '../shell/words.ts'

export function representKey(row: ApiKeyRow, allowance: string | null) {
  const scopes = readScopes(row.granted_scopes)
  return {
    id: row.id,
    object: 'api_key',
    name: row.name,
    prefix: row.prefix,
    scopes,
    effective_scopes: effectiveScopes(scopes, allowance),
    rate_limit: row.rate_limit,
    status: row.revoked_at === null ? 'active' : 'revoked',
    created_at: row.created_at,
    created_by: row.created_by,
    last_used_at: row.last_used_at,
    revoked_at: row.revoked_at,
    revoked_by: row.revoked_by,
  }
}

export type WindowView = ReturnType<typeof representWindow>

/** The hour that the key is in. It opens with a first call: after its end there is none. */
export function representWindow(row: ApiKeyRow, { used, ends_at }: KeyWindowRow, now: Date) {
  const isOpen = ends_at > now.toISOString()
  return { used: isOpen ? used : 0, limit: row.rate_limit, resets_at: isOpen ? ends_at : null }
}

/** What keys may do at most, every scope named. */
export function allowedScopes(allowance: string | null): readonly Scope[] {
  return allowance === null ? SCOPES : readScopes(allowance)
}

/** What the key can do, in plain words; what the account does not allow at present, struck out. */
export function renderScopes(row: ApiKeyRow, allowance: string | null): Html {
  const granted = readScopes(row.granted_scopes)
  const effective = effectiveScopes(granted, allowance)
  const isNothing = effective.length === 0
  return html`<ul class="chips">${granted.map((scope) =>
    effective.includes(scope)
      ? html`<li title="${scope}">${SCOPE_WORDS[scope]}</li>`
      : html`<li class="off" title="${scope}"><s>${SCOPE_WORDS[scope]}</s> <span>not allowed at present</span></li>`,
  )}</ul>${isNothing && html`<p class="hint">This key can prove itself at /api/v1/me and nothing else.</p>`}`
}
