/**
 * The catalog of problems (RFC 9457) of both processes. A request is rejected with a `Problem`, which is usually
 * thrown. Clients branch on `code`, which never changes; `detail` is for people and may change.
 */

interface ProblemType {
  readonly status: number
  readonly title: string
  /**
   * Whether the same request may succeed if it is repeated later, without anybody having changed anything first. A
   * write must be repeated with the same Idempotency-Key.
   */
  readonly retryable: boolean
}

const final = (status: number, title: string): ProblemType => ({
  status,
  title,
  retryable: false,
})
const transient = (status: number, title: string): ProblemType => ({
  status,
  title,
  retryable: true,
})

/** All codes of the API. */
export const PROBLEM_TYPES = {
  bad_request: final(400, 'Bad request'),
  malformed_json: final(400, 'Malformed JSON'),
  duplicate_json_key: final(400, 'Duplicate JSON key'),
  invalid_query_parameter: final(400, 'Invalid query parameter'),
  unknown_query_parameter: final(400, 'Unknown query parameter'),
  invalid_cursor: final(400, 'Invalid cursor'),
  idempotency_key_required: final(400, 'Idempotency-Key required'),
  idempotency_key_invalid: final(400, 'Idempotency-Key invalid'),
  missing_api_key: final(401, 'Missing API key'),
  malformed_authorization: final(401, 'Malformed Authorization header'),
  invalid_api_key: final(401, 'Invalid API key'),
  revoked_api_key: final(401, 'Revoked API key'),
  expired_api_key: final(401, 'Expired API key'),
  address_not_allowed: final(403, 'Address not allowed'),
  insufficient_scope: final(403, 'Insufficient scope'),
  not_found: final(404, 'Not found'),
  route_not_found: final(404, 'Route not found'),
  method_not_allowed: final(405, 'Method not allowed'),
  not_acceptable: final(406, 'Not acceptable'),
  request_timeout: transient(408, 'Request timeout'),
  idempotency_in_progress: transient(409, 'Idempotent request in progress'),
  duplicate_external_id: final(409, 'Duplicate external_id'),
  duplicate_invoice_number: final(409, 'Duplicate invoice number'),
  invoice_not_payable: final(409, 'Invoice not payable'),
  payload_too_large: final(413, 'Payload too large'),
  uri_too_long: final(414, 'URI too long'),
  unsupported_media_type: final(415, 'Unsupported media type'),
  validation_failed: final(422, 'Validation failed'),
  idempotency_key_reused: final(422, 'Idempotency-Key reused'),
  currency_mismatch: final(422, 'Currency mismatch'),
  unsupported_currency: final(422, 'Unsupported currency'),
  payment_exceeds_balance: final(422, 'Payment exceeds balance'),
  allocation_exceeds_payment: final(422, 'Allocation exceeds payment'),
  total_mismatch: final(422, 'Total mismatch'),
  debtor_not_found: final(422, 'Debtor not found'),
  invoice_not_found: final(422, 'Invoice not found'),
  account_read_only: final(423, 'Account is read-only'),
  rate_limit_exceeded: transient(429, 'Rate limit exceeded'),
  headers_too_large: final(431, 'Headers too large'),
  internal_error: transient(500, 'Internal error'),
  bad_gateway: transient(502, 'Bad gateway'),
  service_unavailable: transient(503, 'Service unavailable'),
  gateway_timeout: transient(504, 'Gateway timeout'),
} as const satisfies Record<string, ProblemType>

/** The codes that the API does not use, but the Settings pages, the command line or inbound mail do. */
export const SETTINGS_PROBLEM_TYPES = {
  not_logged_in: final(401, 'Not logged in'),
  invalid_mail_secret: final(401, 'Invalid mail secret'),
  login_failed: final(401, 'Login failed'),
  admin_required: final(403, 'Admin required'),
  confirmation_required: final(403, 'Confirm that it is you'),
  second_factor_required: final(403, 'Second factor required'),
  cross_site_request: final(403, 'Cross-site request'),
  invalid_csrf_token: final(403, 'Invalid CSRF token'),
  key_already_issued: final(409, 'Key already issued'),
  key_not_active: final(409, 'Key not active'),
  second_factor_conflict: final(409, 'Second factor conflict'),
  last_admin: final(409, 'Last Admin'),
  debtor_state_conflict: final(409, 'Customer state conflict'),
  invoice_state_conflict: final(409, 'Invoice state conflict'),
  payment_already_reversed: final(409, 'Payment already reversed'),
  address_suppressed: final(409, 'Address suppressed'),
  approval_decided: final(409, 'Approval already decided'),
  approval_outdated: final(409, 'Approval outdated'),
  too_many_webhook_endpoints: final(409, 'Too many webhook endpoints'),
  webhook_endpoint_disabled: final(409, 'Webhook endpoint disabled'),
  webhook_secret_overlap: final(409, 'Previous webhook secret still in use'),
  invalid_invitation: final(422, 'Invalid invitation'),
  invalid_password_reset: final(422, 'Invalid link'),
  too_many_logins: transient(429, 'Too many logins'),
  too_many_test_mails: transient(429, 'Too many test mails'),
  too_many_invitations: transient(429, 'Too many invitations'),
} as const satisfies Record<string, ProblemType>

const ALL_TYPES = { ...PROBLEM_TYPES, ...SETTINGS_PROBLEM_TYPES }

export type ProblemCode = keyof typeof ALL_TYPES

/**
 * One fault of a request body. `pointer` is a JSON Pointer (RFC 6901) to the faulty value; `code` names the fault for
 * programs, and `detail` describes it for people.
 */
export interface FieldError {
  readonly pointer: string
  readonly code: string
  readonly detail: string
}

export interface ProblemOptions {
  /** Additional members of the document, in snake_case, e.g. `{ required_scope }`. */
  readonly members?: Readonly<Record<string, unknown>>
  /** Headers of the response, in lower case, e.g. `{ 'retry-after': '1' }`. */
  readonly headers?: Readonly<Record<string, string>>
  /** The internal cause, which is logged and never shown. */
  readonly cause?: unknown
}

export class Problem extends Error {
  readonly code: ProblemCode
  readonly members: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>

  /**
   * `detail` is shown to the client: one or two sentences that say what is wrong and, if it is not obvious, what to do.
   */
  constructor(code: ProblemCode, detail: string, options: ProblemOptions = {}) {
    super(detail, { cause: options.cause })
    this.name = 'Problem'
    this.code = code
    this.members = options.members ?? {}
    this.headers = options.headers ?? {}
  }

  get status(): number {
    return problemType(this.code).status
  }
}

/** Returns the problem 503 of a request that the client should repeat after `seconds`. */
export function temporarilyUnavailable(
  detail: string,
  { cause, seconds = 1 }: { readonly cause?: unknown; readonly seconds?: number } = {},
): Problem {
  return new Problem('service_unavailable', detail, {
    headers: { 'retry-after': String(seconds) },
    cause,
  })
}

export const PROBLEM_MEDIA_TYPE = 'application/problem+json; charset=utf-8'

/**
 * Renders the document of RFC 9457. `type` is the URL of the code's documentation below `baseUrl`, which
 * has no trailing slash.
 */
export function renderProblem(problem: Problem, baseUrl: string, requestId: string): string {
  const { status, title, retryable } = problemType(problem.code)
  return JSON.stringify({
    type: `${baseUrl}/docs/errors#${problem.code}`,
    title,
    status,
    detail: problem.message,
    code: problem.code,
    request_id: requestId,
    retryable,
    ...problem.members,
  })
}

export function problemType(code: ProblemCode): ProblemType {
  return ALL_TYPES[code]
}
