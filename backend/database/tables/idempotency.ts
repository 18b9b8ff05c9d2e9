/**
 * One row per committed write with an idempotency key (a header of the API, or a field in Settings), with the response
 * that a repeated request gets.
 */
export interface IdempotencyRow {
  account_id: string
  /** The operation's id in the OpenAPI document, e.g. `createPayment`, or the name of an action in Settings. */
  operation: string
  key: string
  /** SHA-256 of operation and body (or form), base64url. A repeated request must have the same fingerprint. */
  fingerprint: string
  /** The id of the record that the request created or changed. */
  resource_id: string
  /** The response body, byte for byte. If a debtor is erased, its personal data is removed from the body. */
  body: string
  created_at: string
}

export interface IdempotencyTables {
  idempotency_keys: IdempotencyRow
}
