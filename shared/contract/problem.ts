/**
 * Problems (RFC 9457): everything that either process refuses, in one catalogue. A refusal is
 * thrown as a `Problem` and rendered in one place of each process; `code` is what clients branch
 * on and never changes, `detail` is for people and may.
 */

interface ProblemType {
  readonly status: number
  readonly title: string
  /** Whether the same request may succeed later. Writes: only with the same Idempotency-Key. */
  readonly retryable: boolean
}

const refused = (status: number, title: string): ProblemType => ({
  status,
  title,
  retryable: false,
})
const passing = (status: number, title: string): ProblemType => ({ status, title, retryable: true })

/** Every code the API answers with (contract 1.9). */
export const PROBLEM_TYPES = {
  bad_request: refused(400, 'Bad request'),
  malformed_json: refused(400, 'Malformed JSON'),
  duplicate_json_key: refused(400, 'Duplicate JSON key'),
  invalid_query_parameter: refused(400, 'Invalid query parameter'),
  unknown_query_parameter: refused(400, 'Unknown query parameter'),
  invalid_cursor: refused(400, 'Invalid cursor'),
  idempotency_key_required: refused(400, 'Idempotency-Key required'),
  idempotency_key_invalid: refused(400, 'Idempotency-Key invalid'),
  missing_api_key: refused(401, 'Missing API key'),
  malformed_authorization: refused(401, 'Malformed Authorization header'),
  invalid_api_key: refused(401, 'Invalid API key'),
  revoked_api_key: refused(401, 'Revoked API key'),
  insufficient_scope: refused(403, 'Insufficient scope'),
  not_found: refused(404, 'Not found'),
  route_not_found: refused(404, 'Route not found'),
  method_not_allowed: refused(405, 'Method not allowed'),
  not_acceptable: refused(406, 'Not acceptable'),
  request_timeout: passing(408, 'Request timeout'),
  idempotency_in_progress: passing(409, 'Idempotent request in progress'),
  duplicate_external_id: refused(409, 'Duplicate external_id'),
  duplicate_invoice_number: refused(409, 'Duplicate invoice number'),
  invoice_not_payable: refused(409, 'Invoice not payable'),
  payload_too_large: refused(413, 'Payload too large'),
  uri_too_long: refused(414, 'URI too long'),
  unsupported_media_type: refused(415, 'Unsupported media type'),
  validation_failed: refused(422, 'Validation failed'),
  idempotency_key_reused: refused(422, 'Idempotency-Key reused'),
  currency_mismatch: refused(422, 'Currency mismatch'),
  unsupported_currency: refused(422, 'Unsupported currency'),
  payment_exceeds_balance: refused(422, 'Payment exceeds balance'),
  allocation_exceeds_payment: refused(422, 'Allocation exceeds payment'),
  total_mismatch: refused(422, 'Total mismatch'),
  debtor_not_found: refused(422, 'Debtor not found'),
  invoice_not_found: refused(422, 'Invoice not found'),
  account_read_only: refused(423, 'Account is read-only'),
  rate_limit_exceeded: passing(429, 'Rate limit exceeded'),
  headers_too_large: refused(431, 'Headers too large'),
  internal_error: passing(500, 'Internal error'),
  bad_gateway: passing(502, 'Bad gateway'),
  service_unavailable: passing(503, 'Service unavailable'),
  gateway_timeout: passing(504, 'Gateway timeout'),
} as const satisfies Record<string, ProblemType>

/** What the Settings pages answer with besides. */
export const SETTINGS_PROBLEM_TYPES = {
  not_logged_in: refused(401, 'Not logged in'),
  invalid_mail_secret: refused(401, 'Invalid mail secret'),
  login_failed: refused(401, 'Login failed'),
  admin_required: refused(403, 'Admin required'),
  cross_site_request: refused(403, 'Cross-site request'),
  invalid_csrf_token: refused(403, 'Invalid CSRF token'),
  key_already_issued: refused(409, 'Key already issued'),
  last_admin: refused(409, 'Last Admin'),
  debtor_state_conflict: refused(409, 'Customer state conflict'),
  invoice_state_conflict: refused(409, 'Invoice state conflict'),
  payment_already_reversed: refused(409, 'Payment already reversed'),
  address_suppressed: refused(409, 'Address suppressed'),
  approval_decided: refused(409, 'Approval decided'),
  approval_outdated: refused(409, 'Approval outdated'),
  too_many_webhook_endpoints: refused(409, 'Too many webhook endpoints'),
  webhook_endpoint_disabled: refused(409, 'Webhook endpoint disabled'),
  webhook_secret_overlap: refused(409, 'Webhook secrets overlap'),
  invalid_invitation: refused(422, 'Invalid invitation'),
  too_many_logins: passing(429, 'Too many logins'),
} as const satisfies Record<string, ProblemType>

const ALL_TYPES = { ...PROBLEM_TYPES, ...SETTINGS_PROBLEM_TYPES }

export type ProblemCode = keyof typeof ALL_TYPES

/** One fault of a request body; `pointer` is a JSON Pointer (RFC 6901) into it. */
export interface FieldError {
  readonly pointer: string
  readonly code: string
  readonly detail: string
}

export interface ProblemOptions {
  /** Further members of the document, in snake_case, e.g. `{ required_scope }`. */
  readonly members?: Readonly<Record<string, unknown>>
  /** Headers that belong to the answer, in lower case, e.g. `{ 'retry-after': '1' }`. */
  readonly headers?: Readonly<Record<string, string>>
  /** What went wrong inside. Logged, never shown. */
  readonly cause?: unknown
}

export class Problem extends Error {
  readonly code: ProblemCode
  readonly members: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>

  /** `detail` is shown to the client: one or two sentences that say what to do. */
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

export const PROBLEM_MEDIA_TYPE = 'application/problem+json; charset=utf-8'

/** The document of RFC 9457. `baseUrl` (no trailing slash) leads `type` to the code's page. */
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

/** For the title that a page shows. */
export function problemType(code: ProblemCode): ProblemType {
  return ALL_TYPES[code]
}
