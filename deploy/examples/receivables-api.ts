// Types of the Receivables API 1.0.0, made from its OpenAPI document. Do not edit: fetch it anew.

/** Every call; `createClient<paths>` of openapi-fetch takes it. */
export interface paths {
  '/api/v1/me': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
    /** Prove the key */
    get: {
      parameters: {
        query?: never
        header?: never
        path?: never
        cookie?: never
      }
      requestBody?: never
      responses: {
        200: { headers: Record<string, unknown>; content: { 'application/json': Probe } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    put?: never
    post?: never
    delete?: never
    options?: never
    head?: never
    patch?: never
    trace?: never
  }
  '/api/v1/debtors': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
    /** List debtors */
    get: {
      parameters: {
        query?: {
          /** How many to return at most. */
          limit?: number
          /** The `next_cursor` of the page before, with the same filters and `sort`. Opaque; do not make one yourself. */
          cursor?: string
          /** The order, `-` for descending. Equal values are ordered by `id`. */
          sort?: 'created_at' | '-created_at' | 'updated_at' | '-updated_at'
          /** Only what was created at this time or later. RFC 3339 with an offset. */
          created_since?: string
          /** Only what was created before this time. RFC 3339 with an offset. */
          created_before?: string
          /** Only what changed at this time or later. RFC 3339 with an offset. */
          updated_since?: string
          /** Only what last changed before this time. RFC 3339 with an offset. */
          updated_before?: string
          /** Only the one with exactly this external id. */
          external_id?: string
          /** Only debtors with exactly this address. */
          email?: string
          /** Only debtors whose name starts with this text. */
          q?: string
          /** Only debtors with this status. */
          status?: DebtorStatus
        }
        header?: never
        path?: never
        cookie?: never
      }
      requestBody?: never
      responses: {
        200: { headers: Record<string, unknown>; content: { 'application/json': DebtorList } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ScopeProblem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    put?: never
    /** Create a debtor */
    post: {
      parameters: {
        query?: never
        header?: {
          /**
           * Makes a repeat safe: 1 to 255 visible ASCII characters, new for each object you mean to create and the
           * same when you repeat the call. One pair of double quotes around it is removed.
           */
          'Idempotency-Key'?: string
        }
        path?: never
        cookie?: never
      }
      requestBody: { content: { 'application/json': DebtorCreate } }
      responses: {
        201: { headers: Record<string, unknown>; content: { 'application/json': Debtor } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ScopeProblem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        409: { headers: Record<string, unknown>; content: { 'application/problem+json': ConflictProblem } }
        413: { headers: Record<string, unknown>; content: { 'application/problem+json': PayloadProblem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        415: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        422: { headers: Record<string, unknown>; content: { 'application/problem+json': ValidationProblem } }
        423: { headers: Record<string, unknown>; content: { 'application/problem+json': ReadOnlyProblem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    delete?: never
    options?: never
    head?: never
    patch?: never
    trace?: never
  }
  '/api/v1/debtors/{id}': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
    /** Get one debtor */
    get: {
      parameters: {
        query?: never
        header?: never
        path: {
          /** The id, for example from a list or a `Location`. */
          id: string
        }
        cookie?: never
      }
      requestBody?: never
      responses: {
        200: { headers: Record<string, unknown>; content: { 'application/json': Debtor } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ScopeProblem } }
        404: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    put?: never
    post?: never
    delete?: never
    options?: never
    head?: never
    patch?: never
    trace?: never
  }
  '/api/v1/invoices': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
    /** List invoices */
    get: {
      parameters: {
        query?: {
          /** How many to return at most. */
          limit?: number
          /** The `next_cursor` of the page before, with the same filters and `sort`. Opaque; do not make one yourself. */
          cursor?: string
          /** The order, `-` for descending. Equal values are ordered by `id`. */
          sort?: 'created_at' | '-created_at' | 'updated_at' | '-updated_at' | 'due_date' | '-due_date'
          /** Only what was created at this time or later. RFC 3339 with an offset. */
          created_since?: string
          /** Only what was created before this time. RFC 3339 with an offset. */
          created_before?: string
          /** Only what changed at this time or later. RFC 3339 with an offset. */
          updated_since?: string
          /** Only what last changed before this time. RFC 3339 with an offset. */
          updated_before?: string
          /** Only the one with exactly this external id. */
          external_id?: string
          /** Only what belongs to this debtor. An id that does not exist gives an empty list. */
          debtor_id?: string
          /** Only the invoice with exactly this number. */
          number?: string
          /** Only invoices with one of these statuses, separated by commas. */
          status?: InvoiceStatus[]
          /** Only what is in this currency (ISO 4217). */
          currency?: string
          /** Only invoices that are overdue (`true`), or that are not (`false`). */
          overdue?: boolean
          /** Only invoices due on this date or later. */
          due_since?: string
          /** Only invoices due before this date. */
          due_before?: string
        }
        header?: never
        path?: never
        cookie?: never
      }
      requestBody?: never
      responses: {
        200: { headers: Record<string, unknown>; content: { 'application/json': InvoiceList } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ScopeProblem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    put?: never
    /** Create an invoice */
    post: {
      parameters: {
        query?: never
        header?: {
          /**
           * Makes a repeat safe: 1 to 255 visible ASCII characters, new for each object you mean to create and the
           * same when you repeat the call. One pair of double quotes around it is removed.
           */
          'Idempotency-Key'?: string
        }
        path?: never
        cookie?: never
      }
      requestBody: { content: { 'application/json': InvoiceCreate } }
      responses: {
        201: { headers: Record<string, unknown>; content: { 'application/json': Invoice } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ScopeProblem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        409: { headers: Record<string, unknown>; content: { 'application/problem+json': ConflictProblem } }
        413: { headers: Record<string, unknown>; content: { 'application/problem+json': PayloadProblem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        415: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        422: { headers: Record<string, unknown>; content: { 'application/problem+json': ValidationProblem } }
        423: { headers: Record<string, unknown>; content: { 'application/problem+json': ReadOnlyProblem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    delete?: never
    options?: never
    head?: never
    patch?: never
    trace?: never
  }
  '/api/v1/invoices/{id}': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
    /** Get one invoice */
    get: {
      parameters: {
        query?: never
        header?: never
        path: {
          /** The id, for example from a list or a `Location`. */
          id: string
        }
        cookie?: never
      }
      requestBody?: never
      responses: {
        200: { headers: Record<string, unknown>; content: { 'application/json': Invoice } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ScopeProblem } }
        404: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    put?: never
    post?: never
    delete?: never
    options?: never
    head?: never
    patch?: never
    trace?: never
  }
  '/api/v1/payments': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
    /** List payments */
    get: {
      parameters: {
        query?: {
          /** How many to return at most. */
          limit?: number
          /** The `next_cursor` of the page before, with the same filters and `sort`. Opaque; do not make one yourself. */
          cursor?: string
          /** The order, `-` for descending. Equal values are ordered by `id`. */
          sort?: 'created_at' | '-created_at' | 'updated_at' | '-updated_at'
          /** Only what was created at this time or later. RFC 3339 with an offset. */
          created_since?: string
          /** Only what was created before this time. RFC 3339 with an offset. */
          created_before?: string
          /** Only what changed at this time or later. RFC 3339 with an offset. */
          updated_since?: string
          /** Only what last changed before this time. RFC 3339 with an offset. */
          updated_before?: string
          /** Only the one with exactly this external id. */
          external_id?: string
          /** Only what belongs to this debtor. An id that does not exist gives an empty list. */
          debtor_id?: string
          /** Only payments with an allocation to this invoice. */
          invoice_id?: string
          /** Only what is in this currency (ISO 4217). */
          currency?: string
          /** Only payments received on this date or later. */
          received_since?: string
          /** Only payments received before this date. */
          received_before?: string
          /** Only the payment that was recorded with this idempotency key. */
          idempotency_key?: string
        }
        header?: never
        path?: never
        cookie?: never
      }
      requestBody?: never
      responses: {
        200: { headers: Record<string, unknown>; content: { 'application/json': PaymentList } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ScopeProblem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    put?: never
    /** Record a payment */
    post: {
      parameters: {
        query?: never
        header: {
          /**
           * Makes a repeat safe: 1 to 255 visible ASCII characters, new for each payment and the same when you
           * repeat the call. One pair of double quotes around it is removed. Your bank's id of the transaction
           * is a good one. The payment keeps it for ever, as `idempotency_key`.
           */
          'Idempotency-Key': string
        }
        path?: never
        cookie?: never
      }
      requestBody: { content: { 'application/json': PaymentCreate } }
      responses: {
        201: { headers: Record<string, unknown>; content: { 'application/json': Payment } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ScopeProblem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        409: { headers: Record<string, unknown>; content: { 'application/problem+json': ConflictProblem } }
        413: { headers: Record<string, unknown>; content: { 'application/problem+json': PayloadProblem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        415: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        422: { headers: Record<string, unknown>; content: { 'application/problem+json': ValidationProblem } }
        423: { headers: Record<string, unknown>; content: { 'application/problem+json': ReadOnlyProblem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    delete?: never
    options?: never
    head?: never
    patch?: never
    trace?: never
  }
  '/api/v1/messages': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
    /** Read the message log */
    get: {
      parameters: {
        query?: {
          /** How many to return at most. */
          limit?: number
          /** The `next_cursor` of the page before, with the same filters and `sort`. Opaque; do not make one yourself. */
          cursor?: string
          /** The order, `-` for descending. Equal values are ordered by `id`. */
          sort?: 'created_at' | '-created_at' | 'updated_at' | '-updated_at'
          /** Only what was created at this time or later. RFC 3339 with an offset. */
          created_since?: string
          /** Only what was created before this time. RFC 3339 with an offset. */
          created_before?: string
          /** Only what changed at this time or later. RFC 3339 with an offset. */
          updated_since?: string
          /** Only what last changed before this time. RFC 3339 with an offset. */
          updated_before?: string
          /** Only what belongs to this debtor. An id that does not exist gives an empty list. */
          debtor_id?: string
          /** Only messages that cover this invoice. */
          invoice_id?: string
          /** Only messages of this channel. */
          channel?: MessageChannel
          /** Only messages of this stage. */
          stage?: Stage
          /** Only messages with this status. */
          status?: MessageStatus
          /** Only messages sent at this time or later. */
          sent_since?: string
          /** Only messages sent before this time. */
          sent_before?: string
        }
        header?: never
        path?: never
        cookie?: never
      }
      requestBody?: never
      responses: {
        200: { headers: Record<string, unknown>; content: { 'application/json': MessageList } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ScopeProblem } }
        406: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        408: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        414: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        429: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        431: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        500: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        502: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        503: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        504: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        default: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
      }
    }
    put?: never
    post?: never
    delete?: never
    options?: never
    head?: never
    patch?: never
    trace?: never
  }
}

/** What each event carries. */
export interface webhooks {
  'debtor.created': DebtorEvent
  'debtor.updated': DebtorEvent
  'debtor.contactability_changed': DebtorEvent
  'invoice.created': InvoiceEvent
  'invoice.opened': InvoiceEvent
  'invoice.overdue': InvoiceEvent
  'invoice.partially_paid': InvoiceEvent
  'invoice.paid': InvoiceEvent
  'invoice.voided': InvoiceEvent
  'invoice.written_off': InvoiceEvent
  'invoice.reopened': InvoiceEvent
  'invoice.disputed': InvoiceEvent
  'invoice.dispute_resolved': InvoiceEvent
  'payment.recorded': PaymentEvent
  'payment.reversed': PaymentEvent
  'message.awaiting_approval': MessageEvent
  'message.sent': MessageEvent
  'message.delivered': MessageEvent
  'message.bounced': MessageEvent
  'message.suppressed': MessageEvent
  'message.received': MessageEvent
  'account.read_only_changed': AccountEvent
  'kill_switch.changed': KillSwitchEvent
  'api_key.issued': ApiKeyEvent
  'api_key.revoked': ApiKeyEvent
  'webhook.test': TestEvent
}

/** What an endpoint of yours is sent. */
export type WebhookEvent = webhooks[keyof webhooks]

/** What a key may do. */
export type Scope = 'debtors:read' | 'debtors:write' | 'invoices:read' | 'invoices:write' | 'payments:read' | 'payments:write' | 'messages:read'

/** The id of a debtor. Opaque and case-sensitive. */
export type DebtorId = string

/** The id of an invoice. Opaque and case-sensitive. */
export type InvoiceId = string

/** The id of a payment. Opaque and case-sensitive. */
export type PaymentId = string

/** The id of a message. Opaque and case-sensitive. */
export type MessageId = string

/** The id of an invoice of this account. */
export type ReferenceId = string

/** The id of an object of this account, or null. */
export type NullableReferenceId = string | null

/** An instant, in UTC with milliseconds. */
export type Timestamp = string

/** An instant, in UTC with milliseconds, or null. */
export type NullableTimestamp = string | null

/** A currency, ISO 4217 alpha-3, upper case. */
export type Currency = string

/**
 * A currency, ISO 4217 alpha-3, in upper or lower case. Unknown ones and those without a minor unit
 * (XAU, XDR, XXX, …) are refused with 422 `unsupported_currency`.
 */
export type CurrencyInput = string

/** The decimals of the currency by ISO 4217. Divide an amount by 10 to this power to show it. */
export type CurrencyExponent = number

/** An amount in the currency's minor unit, e.g. 12345 for EUR 123.45. A JSON number. */
export type AmountInput = number

/** An amount in the currency's minor unit, e.g. 12345 for EUR 123.45. */
export type Amount = number

/**
 * Your own id, 1 to 128 visible characters, unique among objects of this type in the account. Taken
 * already: 409 `duplicate_external_id` with `existing_id`.
 */
export type ExternalIdInput = string | null

/** Your own id, if you gave one. */
export type ExternalId = string | null

/** Up to 20 values of your own, under keys of up to 40 characters. */
export type MetadataInput = Record<string, string> | null

/** Values of your own. Empty if you gave none. */
export type Metadata = Record<string, string>

/** Who did it. */
export type Actor = {
  /** An API key, a person in the product, an operator of the service, or the service itself. */
  type: 'api_key' | 'user' | 'operator' | 'system'
  /** The id of the key or of the person. */
  id: string | null
  /** The key's label or the person's name. */
  label: string
}

/** How firm a reminder is. Firm and final ones need a person's approval. */
export type Stage = 'friendly' | 'reminder' | 'firm' | 'final'

/** How firm a reminder is, or null. Firm and final ones need a person's approval. */
export type NullableStage = 'friendly' | 'reminder' | 'firm' | 'final' | null

/** Whose key this is, and what it may do. */
export type Probe = {
  object: 'probe'
  account: ProbeAccount
  key: ProbeKey
}

/** The account that the key belongs to. */
export type ProbeAccount = {
  /** The account's id. */
  id: string
  /** The account's name. */
  name: string
  status: AccountStatus
  /** Whether writes are refused with 423. */
  read_only: boolean
  /** The IANA time zone in which calendar dates are judged. */
  timezone: string
  default_currency: Currency
  currency_exponent: CurrencyExponent
}

/** The account's state. `trial_paused`, `suspended` and `cancelled` are read-only. */
export type AccountStatus = 'trial' | 'trial_paused' | 'active' | 'suspended' | 'cancelled'

/** The key that made this call. */
export type ProbeKey = {
  /** The key's id. It is not the secret. */
  id: string
  /** The name that the key was given when it was issued. */
  label: string
  /** The part of the key that is shown in Settings. */
  prefix: string
  /**
   * What the key may do now: the scopes it was granted, less those the account does not allow at
   * present. May be empty.
   */
  scopes: Scope[]
  /** The scopes that the key was issued with. */
  granted_scopes: Scope[]
  /** Calls per hour. */
  rate_limit: number
  /** The length of the window that `rate_limit` is for. */
  rate_limit_window_seconds: number
  created_at: Timestamp
  /** When the key was used before this call, to within 5 seconds; null on its first use. */
  last_used_at: string | null
}

/** Archived debtors are kept but no longer chased. */
export type DebtorStatus = 'active' | 'archived'

/** A debtor to create. An optional field that is null counts as omitted. */
export type DebtorCreate = {
  external_id?: ExternalIdInput
  /** The name, 1 to 200 characters after spaces at both ends are removed. */
  name: string
  /**
   * One address to send reminders to. Need not be unique: several debtors may share a mailbox. The
   * part after the @ is stored in lower case.
   */
  email?: string | null
  /** A number in E.164 form. */
  phone?: string | null
  /** The language to write in, as a BCP 47 tag. */
  language?: string | null
  /** The currency for new invoices in the product, ISO 4217 alpha-3. Invoices sent here name their own. */
  currency?: string | null
  /** Days from issue to due date of an invoice without a `due_date`. Default is the account's. */
  payment_terms_days?: number | null
  /**
   * An IANA time zone, e.g. `Europe/Amsterdam`, for the hours in which reminders are sent. Default is
   * the account's.
   */
  timezone?: string | null
  address?: AddressInput
  /** The debtor's tax or VAT number. */
  tax_id?: string | null
  /** The debtor's number in its commercial register. */
  company_number?: string | null
  metadata?: MetadataInput
}

/** A postal address. */
export type AddressInput = {
  line1?: string | null
  line2?: string | null
  city?: string | null
  region?: string | null
  postal_code?: string | null
  /** ISO 3166-1 alpha-2. */
  country?: string | null
} | null

/** A postal address, or null. */
export type Address = {
  line1: string | null
  line2: string | null
  city: string | null
  region: string | null
  postal_code: string | null
  /** ISO 3166-1 alpha-2. */
  country: string | null
} | null

/** Someone who owes you. Shown to people as a Customer. */
export type Debtor = {
  object: 'debtor'
  id: DebtorId
  external_id: ExternalId
  /** The name. */
  name: string
  /** The address that reminders go to. */
  email: string | null
  /** A number in E.164 form. */
  phone: string | null
  /** The language to write in, as a BCP 47 tag. */
  language: string | null
  /** The currency for new invoices, ISO 4217 alpha-3. */
  currency: string | null
  /** The decimals of `currency`; null if that is null. */
  currency_exponent: number | null
  /** Days from issue to due date of an invoice without one; null for the account's default. */
  payment_terms_days: number | null
  /** The debtor's IANA time zone; null for the account's. */
  timezone: string | null
  address: Address
  /** The debtor's tax or VAT number. */
  tax_id: string | null
  /** The debtor's number in its commercial register. */
  company_number: string | null
  status: DebtorStatus
  /** Sample data. A demo debtor is never contacted. */
  is_demo: boolean
  /** Whether the debtor can be reached. */
  contactability: {
    /**
     * The state of the e-mail address. Nothing is sent to one that bounced, complained of spam or
     * unsubscribed.
     */
    email: 'ok' | 'missing' | 'bounced' | 'complained' | 'unsubscribed'
  }
  /** Whether this debtor is being reminded. Read only; resumed by people, in the product. */
  chasing: {
    status: ChasingStatus
    /** Why it is paused or stopped. */
    reason: string | null
    /** When a pause ends by itself; null if it does not. */
    until: string | null
  }
  /** One for each currency in which there are invoices or payments; never added up. */
  balances: Balance[]
  /**
   * When what tells of the person was erased, on request: the name reads `[erased]`, how to reach
   * the debtor and `metadata` are gone, also from invoices, payments and messages. Amounts stay.
   */
  erased_at: string | null
  metadata: Metadata
  created_at: Timestamp
  updated_at: Timestamp
  revision: Revision
}

/** Whether reminders are sent, held for a while, or have ended. */
export type ChasingStatus = 'active' | 'paused' | 'stopped'

/** What a debtor owes in one currency. */
export type Balance = {
  currency: Currency
  currency_exponent: CurrencyExponent
  /** Due on open and partially paid invoices, in minor units. */
  outstanding: number
  /** The part of `outstanding` that is past its due date. */
  overdue: number
  /** Received but not allocated to an invoice. */
  unapplied: number
}

/** One page of debtors. */
export type DebtorList = {
  object: 'list'
  data: Debtor[]
  has_more: HasMore
  next_cursor: NextCursor
}

/** Whether there is another page. */
export type HasMore = boolean

/** Send it as `cursor` to get the next page; null on the last one. */
export type NextCursor = string | null

/**
 * - `draft`: not final, neither payable nor chased
 * - `open`: nothing has been paid
 * - `partially_paid`: something has been paid
 * - `paid`: nothing is due any more
 * - `void`: cancelled; final
 * - `written_off`: given up, but can still be paid
 *
 * Being overdue is not a status: see `is_overdue`.
 */
export type InvoiceStatus = 'draft' | 'open' | 'partially_paid' | 'paid' | 'void' | 'written_off'

/** One line of an invoice. */
export type LineItemInput = {
  /** What is charged. */
  description: string
  /**
   * How many: an integer, or a decimal as a string with up to 6 decimals such as `"7.5"`. More than
   * 0, at most 1 000 000. Default is 1.
   */
  quantity?: number | string | null
  /** The price of one, in minor units. Negative for a discount. */
  unit_amount: number
  /** The tax on this line, in minor units, as your accounting computed it. Default is 0. */
  tax_amount?: number | null
}

/** One line of an invoice. */
export type LineItem = {
  /** What is charged. */
  description: string
  /** How many, as it was sent. */
  quantity: number | string
  /** The price of one, in minor units. */
  unit_amount: number
  /** The tax on this line, in minor units. */
  tax_amount: number
  /** `quantity × unit_amount`, rounded, halves away from zero; without tax. */
  amount: number
}

/**
 * An invoice to create: exactly one of `debtor_id` and `debtor_external_id`, and at least one of `amount`
 * and `line_items`. An optional field that is null counts as omitted.
 */
export type InvoiceCreate = {
  /** The debtor, by the id that it has here. */
  debtor_id?: NullableReferenceId
  /** Your own id of the debtor, instead of `debtor_id`. */
  debtor_external_id?: string | null
  /**
   * The invoice number, unique in the account; one is given (`INV-000123`) if you send none. Taken
   * already: 409 `duplicate_invoice_number` with `existing_id`.
   */
  number?: string | null
  external_id?: ExternalIdInput
  currency: CurrencyInput
  /** The total owed, tax included, in minor units. May be left out with `line_items`. */
  amount?: number | null
  /** The lines, from which the amount is computed: together, with tax, 1 to 999 999 999 999. */
  line_items?: LineItemInput[] | null
  /** Default is today in the account's time zone. */
  issue_date?: string | null
  /** Not before `issue_date`. Default is that plus the debtor's payment terms, else the account's. */
  due_date?: string | null
  /** An open invoice is chased when it is past due; a draft is not. Default is `open`. */
  status?: 'draft' | 'open' | null
  /** The debtor's purchase order. */
  po_number?: string | null
  /** Notes for yourself and the debtor. */
  notes?: string | null
  /** Where the debtor can pay; https only. */
  payment_url?: string | null
  /**
   * `false` for history: if the invoice is past due already, it is not reminded of until a person resumes it in
   * Settings (`chasing.blocked_reason` is `history`). Default is `true`.
   */
  chase_if_overdue?: boolean | null
  metadata?: MetadataInput
}

/** What a debtor owes you for something. */
export type Invoice = {
  object: 'invoice'
  id: InvoiceId
  debtor_id: DebtorId
  /** The invoice number, unique in the account. */
  number: string
  external_id: ExternalId
  currency: Currency
  currency_exponent: CurrencyExponent
  /** The total, tax included, in minor units. */
  amount: number
  /** What has been paid of it. */
  amount_paid: number
  /** `amount − amount_paid`; never negative. */
  amount_due: number
  /** The lines; empty if the invoice was created with an amount only. */
  line_items: LineItem[]
  /** The date of the invoice. */
  issue_date: string
  /** The last day on which it is paid in time. */
  due_date: string
  status: InvoiceStatus
  /** Open or partially paid, and past the due date in the account's time zone. */
  is_overdue: boolean
  /** Days since the due date; 0 if not overdue. */
  days_past_due: number
  /** The debtor's purchase order. */
  po_number: string | null
  /** Notes. */
  notes: string | null
  /** Where the debtor can pay. */
  payment_url: string | null
  chasing: InvoiceChasing
  paid_at: NullableTimestamp
  voided_at: NullableTimestamp
  written_off_at: NullableTimestamp
  metadata: Metadata
  created_at: Timestamp
  updated_at: Timestamp
  revision: Revision
}

/** Where the reminders for this invoice stand. Read only. */
export type InvoiceChasing = {
  status: ChasingStatus
  /** The stage of the last reminder that was sent. */
  stage: NullableStage
  /** The stage of the next reminder. */
  next_stage: NullableStage
  next_action_at: NullableTimestamp
  last_message_at: NullableTimestamp
  /**
   * What holds the next reminder back: a reason that a message's `suppression` can have, or `awaiting_approval`,
   * `approval_rejected`, `before_chase_from` (it fell due before the day from which the account chases), `history`
   * (it was past due when it was created, and is not to be chased). `credit_on_account`: the debtor's money
   * on account covers all that is due on it. More may be added.
   */
  blocked_reason: string | null
}

/** One page of invoices. */
export type InvoiceList = {
  object: 'list'
  data: Invoice[]
  has_more: HasMore
  next_cursor: NextCursor
}

/** How it was paid. */
export type PaymentMethod = 'bank_transfer' | 'card' | 'direct_debit' | 'cash' | 'cheque' | 'other'

/**
 * A payment to record, with exactly one of `invoice_id`, `allocations` and `debtor_id`. An optional
 * field that is null counts as omitted.
 */
export type PaymentCreate = {
  amount: AmountInput
  /** The currency of the payment; it must be that of every invoice it pays. */
  currency: CurrencyInput
  /** It pays this one invoice, up to what is due. */
  invoice_id?: NullableReferenceId
  /**
   * It is spread over these invoices: each at most once, all of one debtor, together at most `amount`.
   * What is left over is kept as `unapplied_amount`.
   */
  allocations?: {
    invoice_id: ReferenceId
    amount: AmountInput
  }[] | null
  /** It is kept on account of this debtor. */
  debtor_id?: NullableReferenceId
  /**
   * Accept more than is due on an invoice, and keep the surplus as `unapplied_amount`. Default is
   * false.
   */
  allow_overpayment?: boolean | null
  /** When you received it: from 2000-01-01 to tomorrow. Default is today in the account's time zone. */
  received_on?: string | null
  /** How it was paid. Default is `other`. */
  method?: 'bank_transfer' | 'card' | 'direct_debit' | 'cash' | 'cheque' | 'other' | null
  /** What the payer wrote. */
  reference?: string | null
  external_id?: ExternalIdInput
  metadata?: MetadataInput
}

/** Money received. A payment never changes, except that people can reverse it in the product. */
export type Payment = {
  object: 'payment'
  id: PaymentId
  debtor_id: DebtorId
  external_id: ExternalId
  /** What was received, in minor units. */
  amount: number
  currency: Currency
  currency_exponent: CurrencyExponent
  /** What it paid, however that was said; empty if it was kept on account. */
  allocations: Allocation[]
  /** What is not allocated to an invoice. */
  unapplied_amount: number
  /** When it was received. */
  received_on: string
  method: PaymentMethod
  /** What the payer wrote. */
  reference: string | null
  /** Payments are reversed in the product only. */
  status: 'recorded' | 'reversed'
  /** The key it was recorded with; null if not through this API. */
  idempotency_key: string | null
  /** This API, the product, or an import. */
  source: 'api' | 'app' | 'import'
  recorded_by: Actor
  effects: PaymentEffects
  metadata: Metadata
  created_at: Timestamp
  /** The same as `created_at`, or when the payment was reversed. */
  updated_at: Timestamp
  revision: Revision
}

/** The part of a payment that pays one invoice. */
export type Allocation = {
  invoice_id: InvoiceId
  /** In minor units of the payment's currency. */
  amount: number
}

/** What recording the payment did, as it was at that moment. */
export type PaymentEffects = {
  /** The invoices it paid, as they were afterwards. */
  invoices: {
    id: InvoiceId
    status: InvoiceStatus
    amount_due: Amount
  }[]
  /** How many waiting messages about these invoices were cancelled. */
  messages_cancelled: number
  /** Messages about these invoices that were already leaving and could not be stopped. */
  messages_in_flight: MessageId[]
}

/** One page of payments. */
export type PaymentList = {
  object: 'list'
  data: Payment[]
  has_more: HasMore
  next_cursor: NextCursor
}

/** How it is sent. */
export type MessageChannel = 'email' | 'sms' | 'letter' | 'call'

/**
 * - `scheduled`: planned
 * - `awaiting_approval`, `approved`: a firm or final reminder before and after a person's decision
 * - `queued`: leaving
 * - `sent`, `delivered`, `bounced`, `failed`: what became of it
 * - `suppressed`: held back at the last moment, see `suppression`
 * - `cancelled`: no longer needed, for example because a payment came in
 * - `received`: from the debtor
 */
export type MessageStatus = 'scheduled' | 'awaiting_approval' | 'approved' | 'queued' | 'sent' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'cancelled' | 'received'

/** One message to or from a debtor, sent or not. */
export type Message = {
  object: 'message'
  id: MessageId
  debtor_id: DebtorId
  /** The invoices it is about; a message may cover several. */
  invoice_ids: InvoiceId[]
  channel: MessageChannel
  /** To the debtor, or from the debtor. */
  direction: 'outbound' | 'inbound'
  /** What it is for. */
  kind: 'reminder' | 'invoice_copy' | 'receipt' | 'statement' | 'reply'
  stage: NullableStage
  status: MessageStatus
  /** Why it was held back; null unless it was. */
  suppression: {
    /** The rail that held it back. */
    reason: 'kill_switch' | 'demo' | 'invoice_paid' | 'payment_received' | 'credit_on_account' | 'account_read_only' | 'debtor_paused' | 'disputed' | 'unsubscribed' | 'bounced' | 'complained' | 'no_contact' | 'approval_rejected' | 'approval_expired' | 'duplicate' | 'send_window' | 'frequency_cap'
    /** The same in words. */
    detail: string | null
  } | null
  /** A person's decision on a firm or final reminder; null for all others. */
  approval: {
    /** Whether it may not leave without approval. */
    required: boolean
    /** The decision. It lapses if what was approved has changed. */
    status: 'pending' | 'approved' | 'rejected' | 'lapsed' | 'expired'
    /** Who decided; null until then. */
    decided_by: string | null
    decided_at: NullableTimestamp
  } | null
  /** The recipient, masked. */
  to: string | null
  /** The subject line. */
  subject: string | null
  /** The beginning of the text, without markup. */
  preview: string | null
  /** What it asks for, in minor units. That is what was due on its invoices when it was written, less money on account. */
  amount_due: number | null
  /** The currency of `amount_due`. */
  currency: string | null
  /** The decimals of `currency`. */
  currency_exponent: number | null
  /** How late the oldest of its invoices was when it was written. */
  days_past_due: number | null
  /** What the mail provider told. */
  delivery: {
    /** The provider's name for it. */
    provider_message_id: string | null
    delivered_at: NullableTimestamp
    /** Why it came back; null unless it did. */
    bounce: {
      /** Hard ones are final, soft ones are tried again. */
      type: 'hard' | 'soft'
      /** The mail server's status code. */
      code: string | null
    } | null
  }
  scheduled_for: NullableTimestamp
  sent_at: NullableTimestamp
  created_at: Timestamp
  updated_at: Timestamp
  revision: Revision
}

/** One page of the message log. */
export type MessageList = {
  object: 'list'
  data: Message[]
  has_more: HasMore
  next_cursor: NextCursor
}

/** What went wrong (RFC 9457). Branch on `code`; the texts may change. */
export type Problem = {
  /** Where the code is explained. */
  type: string
  /** The code in words. */
  title: string
  /** The HTTP status. */
  status: number
  /** What is wrong with this call, and what to do about it. */
  detail: string
  /** Names this occurrence. */
  instance?: string
  code: ProblemCode
  /** The same as `X-Request-Id`. */
  request_id: string
  /**
   * Whether the same call can succeed later. Repeat a POST only with the same `Idempotency-Key`, and
   * after `Retry-After` where there is one.
   */
  retryable: boolean
}

/** What went wrong, for programs. Each has an example under the status it comes with. */
export type ProblemCode = 'bad_request' | 'malformed_json' | 'duplicate_json_key' | 'invalid_query_parameter' | 'unknown_query_parameter' | 'invalid_cursor' | 'idempotency_key_required' | 'idempotency_key_invalid' | 'missing_api_key' | 'malformed_authorization' | 'invalid_api_key' | 'revoked_api_key' | 'insufficient_scope' | 'not_found' | 'route_not_found' | 'method_not_allowed' | 'not_acceptable' | 'request_timeout' | 'idempotency_in_progress' | 'duplicate_external_id' | 'duplicate_invoice_number' | 'invoice_not_payable' | 'payload_too_large' | 'uri_too_long' | 'unsupported_media_type' | 'validation_failed' | 'idempotency_key_reused' | 'currency_mismatch' | 'unsupported_currency' | 'payment_exceeds_balance' | 'allocation_exceeds_payment' | 'total_mismatch' | 'debtor_not_found' | 'invoice_not_found' | 'account_read_only' | 'rate_limit_exceeded' | 'headers_too_large' | 'internal_error' | 'bad_gateway' | 'service_unavailable' | 'gateway_timeout'

/** The call could not be understood. */
export type RequestProblem = Problem & {
  /** With `unknown_query_parameter` and `invalid_query_parameter`, the name of the parameter. */
  parameter?: string
  /** With `duplicate_json_key`, where the name occurs twice, as a JSON Pointer (RFC 6901). */
  pointer?: string
}

/** The key lacks a scope. */
export type ScopeProblem = Problem & {
  required_scope: Scope
  /** What the key may do now, as `key.scopes` of `GET /api/v1/me`. */
  scopes: Scope[]
  /**
   * What the key was issued with. If `required_scope` is among them, the account does not allow
   * it at present.
   */
  granted_scopes: Scope[]
}

/** The call conflicts with what exists. */
export type ConflictProblem = Problem & {
  /** With `duplicate_external_id` and `duplicate_invoice_number`, the object that has it. */
  existing_id?: string
  /** With `invoice_not_payable`, the invoice's status. */
  invoice_status?: InvoiceStatus
}

/** The body is too large. */
export type PayloadProblem = Problem & {
  /** How large a body may be. */
  max_bytes: number
}

/** The body was understood and refused. */
export type ValidationProblem = Problem & {
  /** Every field that is wrong; with all codes but `idempotency_key_reused`. */
  errors?: FieldError[]
  /** With `currency_mismatch` and `total_mismatch`, what it should have been. */
  expected?: number | string
  /** With `currency_mismatch` and `total_mismatch`, what it was. */
  actual?: number | string
  /** With `payment_exceeds_balance`, what is due on the invoice. */
  amount_due?: Amount
  /** With `idempotency_key_reused` on a debtor or an invoice, the one that the key created. */
  original_id?: string
  /** With `idempotency_key_reused` on a payment, the one that the key recorded. */
  original_payment_id?: PaymentId
}

/** One field that is wrong. */
export type FieldError = {
  /** Where, as a JSON Pointer (RFC 6901) into the body you sent. */
  pointer: string
  /**
   * One of `required`, `invalid_type`, `too_long`, `too_short`, `out_of_range`, `invalid_format`,
   * `invalid_enum`, `unknown_field`, `conflicting_field`, `not_in_future`, or the problem's own code.
   */
  code: string
  /** What is wrong with it. */
  detail: string
}

/** The account cannot write. */
export type ReadOnlyProblem = Problem & {
  /** Why it cannot. */
  account_status: 'suspended' | 'cancelled' | 'trial_paused'
  /** Where an Admin can change that. */
  resume_url: string
}

/** Something happened to a debtor. */
export type DebtorEvent = {
  id: EventId
  /** What happened. */
  type: 'debtor.created' | 'debtor.updated' | 'debtor.contactability_changed'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** What it happened to. */
  data: {
    object: Debtor
    previous: Previous
    revision: Revision
  }
}

/** Something happened to an invoice. */
export type InvoiceEvent = {
  id: EventId
  /** What happened. */
  type: 'invoice.created' | 'invoice.opened' | 'invoice.overdue' | 'invoice.partially_paid' | 'invoice.paid' | 'invoice.voided' | 'invoice.written_off' | 'invoice.reopened' | 'invoice.disputed' | 'invoice.dispute_resolved'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** What it happened to. */
  data: {
    object: Invoice
    previous: Previous
    revision: Revision
  }
}

/** Something happened to a payment. */
export type PaymentEvent = {
  id: EventId
  /** What happened. */
  type: 'payment.recorded' | 'payment.reversed'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** What it happened to. */
  data: {
    object: Payment
    previous: Previous
    revision: Revision
  }
}

/** Something happened to a message. */
export type MessageEvent = {
  id: EventId
  /** What happened. */
  type: 'message.awaiting_approval' | 'message.sent' | 'message.delivered' | 'message.bounced' | 'message.suppressed' | 'message.received'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** What it happened to. */
  data: {
    object: Message
    previous: Previous
    revision: Revision
  }
}

/** Something happened to the account. */
export type AccountEvent = {
  id: EventId
  /** What happened. */
  type: 'account.read_only_changed'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** What it happened to. */
  data: {
    object: Account
    previous: Previous
    revision: NoRevision
  }
}

/** The kill switch was put on or off. */
export type KillSwitchEvent = {
  id: EventId
  /** What happened. */
  type: 'kill_switch.changed'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** What it happened to. */
  data: {
    object: KillSwitch
    previous: Previous
    revision: NoRevision
  }
}

/** Something happened to an API key. */
export type ApiKeyEvent = {
  id: EventId
  /** What happened. */
  type: 'api_key.issued' | 'api_key.revoked'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** What it happened to. */
  data: {
    object: ApiKey
    previous: Previous
    revision: NoRevision
  }
}

/** Nothing happened. */
export type TestEvent = {
  id: EventId
  /** What happened. */
  type: 'webhook.test'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** What it happened to. */
  data: {
    object: WebhookTest
    previous: Previous
    revision: NoRevision
  }
}

/**
 * How often it was changed: 1 when it was created, one more with each change. Of two states of an object keep
 * the one with the higher revision, wherever they come from. An event has the revision of its object.
 */
export type Revision = number

/** Only debtors, invoices, payments and messages have a revision. */
export type NoRevision = null

/**
 * The event's id, also the `webhook-id` of every attempt to deliver it. The same event may arrive
 * more than once: remember the ids that you have dealt with.
 */
export type EventId = string

/** The version of the API whose objects it carries. */
export type EventVersion = 'v1'

/** Present, and true, on test events alone. Their objects are made up. */
export type EventTest = boolean

/** The account's id. */
export type AccountId = string

/**
 * The members of `object` that changed, with what they were before; null where there was nothing
 * before.
 */
export type Previous = Record<string, unknown> | null

/** An account, as in `GET /api/v1/me`. */
export type Account = {
  object: 'account'
  id: AccountId
  /** The account's name. */
  name: string
  status: AccountStatus
  /** Whether writes are refused with 423. */
  read_only: boolean
  /** The IANA time zone in which calendar dates are judged. */
  timezone: string
  default_currency: Currency
  currency_exponent: CurrencyExponent
  created_at: Timestamp
  updated_at: Timestamp
}

/** An API key, without its secret. */
export type ApiKey = {
  object: 'api_key'
  /** The key's id. It is not the secret. */
  id: string
  /** The name that the key was given when it was issued. */
  label: string
  /** The part of the key that is shown in Settings. */
  prefix: string
  /** Whether calls with it are accepted. */
  status: 'active' | 'revoked'
  /** The scopes that the key was issued with. */
  granted_scopes: Scope[]
  /** Calls per hour. */
  rate_limit: number
  created_at: Timestamp
  /** Who issued it. */
  created_by: string
  last_used_at: NullableTimestamp
  revoked_at: NullableTimestamp
  /** Who revoked it; null while it is active. */
  revoked_by: string | null
}

/**
 * What stops every reminder at once. While it is on nothing leaves; what was waiting when it was put on is
 * suppressed, and putting it off begins from today.
 */
export type KillSwitch = {
  object: 'kill_switch'
  /** The account's own, or that of the whole installation. */
  scope: 'account' | 'installation'
  /** Whether nothing leaves. */
  on: boolean
  /** Why it was put on; null while it is off. */
  reason: string | null
  changed_at: NullableTimestamp
  /** Who put it on or off. */
  changed_by: string | null
}

/** What a test event carries. */
export type WebhookTest = {
  object: 'webhook_test'
  /** That it is a test. */
  message: string
}
