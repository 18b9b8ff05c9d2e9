export interface ApiKeyRow {
  id: string
  account_id: string
  name: string
  /** The beginning of the key, by which people recognize it, e.g. `rcv_7Qd4xK2m`. */
  prefix: string
  /** HMAC-SHA-256(pepper, SHA-256(key)), base64url. */
  digest: string
  /** The version of the pepper in `digest`. */
  pepper_version: string
  /**
   * JSON array of the scopes granted at issue. Never changes, but the account can restrict which of them its keys may
   * use.
   */
  granted_scopes: string
  /** Calls per hour. */
  rate_limit: number
  /** Increased by revocation, rotation and expiry, and by a change of the expiry or of the allowed addresses. */
  revision: number
  created_at: string
  /** The issuer, as shown to people, e.g. the e-mail address of a user, or `operator`. */
  created_by: string
  last_used_at: string | null
  revoked_at: string | null
  revoked_by: string | null
  /** When the key expires; null: never. The expiry may only be moved to an earlier time. */
  expires_at: string | null
  /** When a backend recorded that the key had expired. */
  expired_at: string | null
  /** When the next warning of the expiry, or the expiry itself, is to be recorded; null: nothing is left to record. */
  expiry_due_at: string | null
  /** JSON array of address prefixes; null: any address. */
  allowed_addresses: string | null
  /** The key that a rotation issued in place of this one. */
  replaced_by: string | null
}

/** Records that a form has issued a key, so that the same form, sent again, issues no second key. */
export interface KeySubmissionRow {
  /** A hash of the user's id and of the random value that the form contains. */
  submission: string
  account_id: string
  key_id: string
  created_at: string
}

/** The number of calls of a key in one hour that got a status of one class. */
export interface KeyUsageRow {
  key_id: string
  /** In UTC, e.g. `2026-11-21T10`. */
  hour: string
  /** 2 for 200 to 299, and so on. */
  status_class: number
  calls: number
}

/** The calls of a key to one operation in one hour. */
export interface KeyOperationRow {
  key_id: string
  /** As in `KeyUsageRow`. */
  hour: string
  /** The operationId of the contract. */
  operation: string
  calls: number
  /** Responses with 4xx or 5xx. */
  errors: number
}

/** The number of rejected or failed calls of a key on one day, by error code. */
export interface KeyErrorRow {
  key_id: string
  /** In UTC, e.g. `2026-11-21`. */
  day: string
  code: string
  calls: number
}

/** The last window of a key's rate limit that gateways reported. It may have ended: see `ends_at`. */
export interface KeyWindowRow {
  key_id: string
  used: number
  rate_limit: number
  ends_at: string
}

/** For each gateway process, the last usage report whose counts were added, so that no report is added twice. */
export interface UsageReportRow {
  gateway: string
  /** The number of the report: a gateway process numbers its reports from 1. */
  batch: number
  reported_at: string
}

export interface ApiKeyTables {
  api_keys: ApiKeyRow
  key_submissions: KeySubmissionRow
  key_usage: KeyUsageRow
  key_operations: KeyOperationRow
  key_errors: KeyErrorRow
  key_windows: KeyWindowRow
  usage_reports: UsageReportRow
}
