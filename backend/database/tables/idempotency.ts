/** Rows of responses that are stored for repeated requests. */

/** One row per committed write with an Idempotency-Key: the response that a repeated request gets. */
export interface IdempotencyRow {
  account_id: string
  /** The operation's id in the OpenAPI document, e.g. `createPayment`. */
  operation: string
  key: string
  /** SHA-256 of operation and canonical body, base64url. */
  fingerprint: string
  resource_id: string
  /** The response body, byte for byte. */
  body: string
  created_at: string
}

export interface IdempotencyTables {
  idempotency_keys: IdempotencyRow
}
