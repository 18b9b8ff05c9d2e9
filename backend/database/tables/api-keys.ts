/** Rows of keys and their use. */

export interface ApiKeyRow {
  id: string
  account_id: string
  name: string
  prefix: string
  /** HMAC-SHA-256(pepper, SHA-256(secret)), base64url. */
  digest: string
  pepper_version: string
  /** JSON array of the scopes granted at issue. Never changes. */
  granted_scopes: string
  /** Calls an hour. */
  rate_limit: number
  /** Raised by revocation. */
  revision: number
  created_at: string
  /** Who issued it, as shown to people. */
  created_by: string
  last_used_at: string | null
  revoked_at: string | null
  revoked_by: string | null
}

/** Forms that issued a key: the same form sent again issues none. */
export interface KeySubmissionRow {
  submission: string
  account_id: string
  key_id: string
  created_at: string
}

/** Calls of a key in one hour that were answered alike. */
export interface KeyUsageRow {
  key_id: string
  /** UTC, `2026-11-21T10`. */
  hour: string
  /** 2 for 200 to 299, and so on. */
  status_class: number
  calls: number
}

/** Calls of a key on one day that were refused, or failed, with one code. */
export interface KeyErrorRow {
  key_id: string
  /** UTC, `2026-11-21`. */
  day: string
  code: string
  calls: number
}

/** The hour a key is in, as gateways last reported it. */
export interface KeyWindowRow {
  key_id: string
  used: number
  rate_limit: number
  ends_at: string
}

/** The last report of each gateway process that was applied. */
export interface UsageReportRow {
  gateway: string
  batch: number
  reported_at: string
}

export interface ApiKeyTables {
  api_keys: ApiKeyRow
  key_submissions: KeySubmissionRow
  key_usage: KeyUsageRow
  key_errors: KeyErrorRow
  key_windows: KeyWindowRow
  usage_reports: UsageReportRow
}
