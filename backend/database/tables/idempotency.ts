/** Rows of answers that are kept for repeats. */

/** One row a committed write that carried an Idempotency-Key (contract 1.10). */
export interface IdempotencyRow {
  account_id: string
  /** The operation's id in the OpenAPI document, e.g. `createPayment`. */
  operation: string
  key: string
  /** SHA-256 over operation and canonical body, base64url. */
  fingerprint: string
  resource_id: string
  /** The answer's body, byte for byte. */
  body: string
  created_at: string
}

export interface IdempotencyTables {
  idempotency_keys: IdempotencyRow
}
