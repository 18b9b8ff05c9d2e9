// Types of the Receivables API 1.1.0, generated from its OpenAPI document. Do not edit it; download it again.

/** Every path with its methods, for `createClient<paths>` of openapi-fetch. */
export interface paths {
  '/api/v1/me': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
    /** Check the key */
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
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
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
          /** How many objects a page has at most. */
          limit?: number
          /**
           * The `next_cursor` of the previous page; send it with the same filters and `sort`. Cursors are opaque: do
           * not construct one.
           */
          cursor?: string
          /** The sort order; a leading `-` means descending. Objects with equal values are ordered by `id`. */
          sort?: 'created_at' | '-created_at' | 'updated_at' | '-updated_at'
          /** Only objects created at this time or later. An RFC 3339 time with a UTC offset. */
          created_since?: string
          /** Only objects created before this time. An RFC 3339 time with a UTC offset. */
          created_before?: string
          /** Only objects changed at this time or later. An RFC 3339 time with a UTC offset. */
          updated_since?: string
          /** Only objects last changed before this time. An RFC 3339 time with a UTC offset. */
          updated_before?: string
          /** Only the object with exactly this external id. */
          external_id?: string
          /** Only debtors with exactly this email address. */
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
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ForbiddenProblem } }
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
           * Makes repeating the call safe. Use a new key for each object that you create, and the same key when you
           * repeat a call: 1 to 255 visible ASCII characters. One pair of double quotes around the key is removed.
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
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ForbiddenProblem } }
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
          /** The id of the object, for example from a list or from a `Location` header. */
          id: string
        }
        cookie?: never
      }
      requestBody?: never
      responses: {
        200: { headers: Record<string, unknown>; content: { 'application/json': Debtor } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ForbiddenProblem } }
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
          /** How many objects a page has at most. */
          limit?: number
          /**
           * The `next_cursor` of the previous page; send it with the same filters and `sort`. Cursors are opaque: do
           * not construct one.
           */
          cursor?: string
          /** The sort order; a leading `-` means descending. Objects with equal values are ordered by `id`. */
          sort?: 'created_at' | '-created_at' | 'updated_at' | '-updated_at' | 'due_date' | '-due_date'
          /** Only objects created at this time or later. An RFC 3339 time with a UTC offset. */
          created_since?: string
          /** Only objects created before this time. An RFC 3339 time with a UTC offset. */
          created_before?: string
          /** Only objects changed at this time or later. An RFC 3339 time with a UTC offset. */
          updated_since?: string
          /** Only objects last changed before this time. An RFC 3339 time with a UTC offset. */
          updated_before?: string
          /** Only the object with exactly this external id. */
          external_id?: string
          /** Only objects of this debtor. If the id does not exist, the list is empty. */
          debtor_id?: string
          /** Only the invoice with exactly this number. */
          number?: string
          /** Only invoices with one of these statuses, separated by commas. */
          status?: InvoiceStatus[]
          /** Only objects in this currency (ISO 4217). */
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
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ForbiddenProblem } }
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
           * Makes repeating the call safe. Use a new key for each object that you create, and the same key when you
           * repeat a call: 1 to 255 visible ASCII characters. One pair of double quotes around the key is removed.
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
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ForbiddenProblem } }
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
          /** The id of the object, for example from a list or from a `Location` header. */
          id: string
        }
        cookie?: never
      }
      requestBody?: never
      responses: {
        200: { headers: Record<string, unknown>; content: { 'application/json': Invoice } }
        400: { headers: Record<string, unknown>; content: { 'application/problem+json': RequestProblem } }
        401: { headers: Record<string, unknown>; content: { 'application/problem+json': Problem } }
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ForbiddenProblem } }
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
          /** How many objects a page has at most. */
          limit?: number
          /**
           * The `next_cursor` of the previous page; send it with the same filters and `sort`. Cursors are opaque: do
           * not construct one.
           */
          cursor?: string
          /** The sort order; a leading `-` means descending. Objects with equal values are ordered by `id`. */
          sort?: 'created_at' | '-created_at' | 'updated_at' | '-updated_at'
          /** Only objects created at this time or later. An RFC 3339 time with a UTC offset. */
          created_since?: string
          /** Only objects created before this time. An RFC 3339 time with a UTC offset. */
          created_before?: string
          /** Only objects changed at this time or later. An RFC 3339 time with a UTC offset. */
          updated_since?: string
          /** Only objects last changed before this time. An RFC 3339 time with a UTC offset. */
          updated_before?: string
          /** Only the object with exactly this external id. */
          external_id?: string
          /** Only objects of this debtor. If the id does not exist, the list is empty. */
          debtor_id?: string
          /** Only payments with an allocation to this invoice. */
          invoice_id?: string
          /** Only objects in this currency (ISO 4217). */
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
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ForbiddenProblem } }
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
           * Makes repeating the call safe. Use a new key for each payment, such as the id that your bank gives the
           * transaction, and the same key when you repeat a call: 1 to 255 visible ASCII characters. One pair of
           * double quotes around the key is removed. The payment keeps the key forever, as `idempotency_key`.
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
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ForbiddenProblem } }
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
          /** How many objects a page has at most. */
          limit?: number
          /**
           * The `next_cursor` of the previous page; send it with the same filters and `sort`. Cursors are opaque: do
           * not construct one.
           */
          cursor?: string
          /** The sort order; a leading `-` means descending. Objects with equal values are ordered by `id`. */
          sort?: 'created_at' | '-created_at' | 'updated_at' | '-updated_at'
          /** Only objects created at this time or later. An RFC 3339 time with a UTC offset. */
          created_since?: string
          /** Only objects created before this time. An RFC 3339 time with a UTC offset. */
          created_before?: string
          /** Only objects changed at this time or later. An RFC 3339 time with a UTC offset. */
          updated_since?: string
          /** Only objects last changed before this time. An RFC 3339 time with a UTC offset. */
          updated_before?: string
          /** Only objects of this debtor. If the id does not exist, the list is empty. */
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
        403: { headers: Record<string, unknown>; content: { 'application/problem+json': ForbiddenProblem } }
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

/** The body of each event. */
export interface webhooks {
  'debtor.created': DebtorEvent
  'debtor.updated': DebtorEvent
  'debtor.contactability_changed': DebtorEvent
  'invoice.created': InvoiceEvent
  'invoice.opened': InvoiceEvent
  'invoice.updated': InvoiceEvent
  'invoice.overdue': InvoiceEvent
  'invoice.partially_paid': InvoiceEvent
  'invoice.paid': InvoiceEvent
  'invoice.voided': InvoiceEvent
  'invoice.written_off': InvoiceEvent
  'invoice.credited': InvoiceEvent
  'invoice.reopened': InvoiceEvent
  'invoice.disputed': InvoiceEvent
  'invoice.dispute_resolved': InvoiceEvent
  'payment.recorded': PaymentEvent
  'payment.updated': PaymentEvent
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
  'api_key.updated': ApiKeyEvent
  'api_key.expiring': ApiKeyEvent
  'api_key.expired': ApiKeyEvent
  'api_key.revoked': ApiKeyEvent
  'webhook.test': TestEvent
}

/** Any event that your webhook endpoint receives. */
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

/** A time in UTC with milliseconds. */
export type Timestamp = string

/** A time in UTC with milliseconds, or null. */
export type NullableTimestamp = string | null

/** A currency, ISO 4217 alpha-3, upper case. */
export type Currency = string

/**
 * A currency, ISO 4217 alpha-3, in upper or lower case. Unknown currencies and those without a minor unit
 * (XAU, XDR, XXX, …) are rejected with 422 `unsupported_currency`.
 */
export type CurrencyInput = string

/**
 * The number of decimals of the currency, as ISO 4217 defines it. Divide an amount by 10 to this power to
 * display it.
 */
export type CurrencyExponent = number

/** An amount in the currency's minor unit, e.g. 12345 for EUR 123.45. A JSON number. */
export type AmountInput = number

/** An amount in the currency's minor unit, e.g. 12345 for EUR 123.45. */
export type Amount = number

/**
 * Your own id: 1 to 128 visible characters, unique among objects of this type in the account. If it is
 * already used, the response is 409 `duplicate_external_id` with `existing_id`.
 */
export type ExternalIdInput = string | null

/** Your own id, if you sent one. */
export type ExternalId = string | null

/** Up to 20 values of your own, with keys of up to 40 characters. A key may not be `__proto__`. */
export type MetadataInput = Record<string, string> | null

/** Values of your own. Empty if you sent none. */
export type Metadata = Record<string, string>

/** Who made the change. */
export type Actor = {
  /** An API key, a person in the product, an operator of the service, or the service itself. */
  type: 'api_key' | 'user' | 'operator' | 'system'
  /** The id of the key or of the person. */
  id: string | null
  /** The key's label or the person's name. */
  label: string
}

/** How urgent a reminder is. Firm and final reminders need a person's approval. */
export type Stage = 'friendly' | 'reminder' | 'firm' | 'final'

/** How urgent a reminder is, or null. Firm and final reminders need a person's approval. */
export type NullableStage = 'friendly' | 'reminder' | 'firm' | 'final' | null

/** The account of the key, and what the key may do. */
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
  /** Whether writes are rejected with 423. */
  read_only: boolean
  /** The IANA time zone of the account's calendar dates. */
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
   * What the key may do now: the scopes that it was issued with, without those that the account does not
   * allow at present. May be empty.
   */
  scopes: Scope[]
  /** The scopes that the key was issued with. */
  granted_scopes: Scope[]
  /** Calls per hour. */
  rate_limit: number
  /** The number of seconds for which `rate_limit` applies, from the first call on. */
  rate_limit_window_seconds: number
  created_at: Timestamp
  /**
   * When the key expires: from then on, calls with it return 401 `expired_api_key`. Null if the key does
   * not expire. An Admin can choose an earlier time, but not a later one.
   */
  expires_at: string | null
  /** When the key was last used before this call, accurate to 5 seconds; null if this is its first call. */
  last_used_at: string | null
}

/** Archived debtors are kept, but no reminders are sent to them. */
export type DebtorStatus = 'active' | 'archived'

/** A debtor to create. An optional field that is null counts as omitted. */
export type DebtorCreate = {
  external_id?: ExternalIdInput
  /** The name, 1 to 200 characters after spaces at both ends are removed. */
  name: string
  /**
   * The email address to which reminders are sent. It need not be unique: several debtors can share a
   * mailbox. The part after the @ is stored in lower case.
   */
  email?: string | null
  /** A number in E.164 form. */
  phone?: string | null
  /** The language of reminders, as a BCP 47 tag. */
  language?: string | null
  /**
   * The currency of new invoices in the product, ISO 4217 alpha-3. Invoices created by this API have a
   * currency of their own.
   */
  currency?: string | null
  /**
   * How many days after its issue date an invoice without a `due_date` is due. The default is the
   * account's.
   */
  payment_terms_days?: number | null
  /**
   * The IANA time zone of the hours in which reminders are sent, e.g. `Europe/Amsterdam`. The default is
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

/** A person or company that owes you money. The product calls it a Customer. */
export type Debtor = {
  object: 'debtor'
  id: DebtorId
  external_id: ExternalId
  /** The name. */
  name: string
  /** The email address to which reminders are sent. */
  email: string | null
  /** A number in E.164 form. */
  phone: string | null
  /** The language of reminders, as a BCP 47 tag. */
  language: string | null
  /** The currency for new invoices, ISO 4217 alpha-3. */
  currency: string | null
  /** The number of decimals of `currency`; null if `currency` is null. */
  currency_exponent: number | null
  /**
   * How many days after its issue date an invoice without a due date is due; null for the account's
   * default.
   */
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
     * The state of the email address. No reminder is sent to an address that bounced, reported spam or
     * unsubscribed.
     */
    email: 'ok' | 'missing' | 'bounced' | 'complained' | 'unsubscribed'
  }
  /**
   * Whether reminders are sent to this debtor. Read-only: people pause and resume reminders in the
   * product.
   */
  chasing: {
    status: ChasingStatus
    /** Why reminders are paused or stopped. */
    reason: string | null
    /** When the pause ends; null if it has no end. */
    until: string | null
  }
  /** One element for each currency in which there are invoices or payments. Currencies are never added up. */
  balances: Balance[]
  /**
   * When the debtor's personal data was erased on request. The name is then `[erased]`; contact details
   * and `metadata` are removed, also from invoices, payments and messages. Amounts are kept.
   */
  erased_at: string | null
  metadata: Metadata
  created_at: Timestamp
  updated_at: Timestamp
  revision: Revision
}

/** Whether reminders are sent, are paused, or have ended. */
export type ChasingStatus = 'active' | 'paused' | 'stopped'

/** What a debtor owes in one currency. */
export type Balance = {
  currency: Currency
  currency_exponent: CurrencyExponent
  /** The amount due on open and partially paid invoices, in minor units. */
  outstanding: number
  /** The part of `outstanding` that is past its due date. */
  overdue: number
  /** Money that was received, but is not allocated to an invoice. */
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

/** Send it as `cursor` to get the next page; null on the last page. */
export type NextCursor = string | null

/**
 * - `draft`: not final; it cannot be paid, and no reminders are sent
 * - `open`: nothing has been paid
 * - `partially_paid`: a part has been paid
 * - `paid`: no amount is due
 * - `void`: cancelled; this is final
 * - `written_off`: no longer expected to be paid, but can still be paid
 *
 * Overdue is not a status: see `is_overdue`.
 */
export type InvoiceStatus = 'draft' | 'open' | 'partially_paid' | 'paid' | 'void' | 'written_off'

/** One line of an invoice. */
export type LineItemInput = {
  /** The goods or service that is charged. */
  description: string
  /**
   * The quantity: an integer, or a string with up to 6 decimals such as `"7.5"`. More than 0, at most
   * 1,000,000. The default is 1.
   */
  quantity?: number | string | null
  /** The price of one unit, in minor units of the currency. Negative for a discount. */
  unit_amount: number
  /** The tax on this line, in minor units, as your accounting computed it. The default is 0. */
  tax_amount?: number | null
}

/** One line of an invoice. */
export type LineItem = {
  /** The goods or service that is charged. */
  description: string
  /** The quantity, as it was sent. */
  quantity: number | string
  /** The price of one unit, in minor units of the currency. */
  unit_amount: number
  /** The tax on this line, in minor units. */
  tax_amount: number
  /** `quantity × unit_amount` without tax, with halves rounded away from zero. */
  amount: number
}

/**
 * An invoice to create: exactly one of `debtor_id` and `debtor_external_id`, and at least one of `amount`
 * and `line_items`. An optional field that is null counts as omitted.
 */
export type InvoiceCreate = {
  /** The id of the debtor. */
  debtor_id?: NullableReferenceId
  /** Your own id of the debtor, in place of `debtor_id`. */
  debtor_external_id?: string | null
  /**
   * The invoice number, unique in the account. If you send none, the service assigns one (`INV-000123`).
   * If it is already used, the response is 409 `duplicate_invoice_number` with `existing_id`.
   */
  number?: string | null
  external_id?: ExternalIdInput
  currency: CurrencyInput
  /** The total with tax, in minor units. Optional if you send `line_items`. */
  amount?: number | null
  /** The lines from which the amount is computed. Their total with tax must be 1 to 999,999,999,999. */
  line_items?: LineItemInput[] | null
  /** The default is today in the account's time zone. */
  issue_date?: string | null
  /**
   * Not before `issue_date`. The default is `issue_date` plus the payment terms of the debtor, or else of
   * the account.
   */
  due_date?: string | null
  /**
   * Reminders are sent about an open invoice when it is past due, but not about a draft. The default is
   * `open`.
   */
  status?: 'draft' | 'open' | null
  /** The number of the debtor's purchase order. */
  po_number?: string | null
  /** Notes for you and the debtor. */
  notes?: string | null
  /** Where the debtor can pay; https only. */
  payment_url?: string | null
  /**
   * Send `false` for old invoices: if the invoice is already past due, no reminder about it is sent until
   * a person resumes it in Settings (`chasing.blocked_reason` is `history`). The default is `true`.
   */
  chase_if_overdue?: boolean | null
  metadata?: MetadataInput
}

/** An amount that a debtor owes you. */
export type Invoice = {
  object: 'invoice'
  id: InvoiceId
  debtor_id: DebtorId
  /** The invoice number, unique in the account. */
  number: string
  external_id: ExternalId
  currency: Currency
  currency_exponent: CurrencyExponent
  /** The total with tax, in minor units. */
  amount: number
  /** The amount that has been paid. */
  amount_paid: number
  /** The amount that a person has credited in Settings; it is no longer owed. */
  amount_credited: number
  /** `amount − amount_paid − amount_credited`; never negative. */
  amount_due: number
  /** The lines; empty if the invoice was created with an amount only. */
  line_items: LineItem[]
  /** The date of the invoice. */
  issue_date: string
  /** The last day on which a payment is on time. */
  due_date: string
  status: InvoiceStatus
  /** Open or partially paid, and past the due date in the account's time zone. */
  is_overdue: boolean
  /** Days since the due date; 0 if not overdue. */
  days_past_due: number
  /** The number of the debtor's purchase order. */
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

/** The state of the reminders about this invoice. Read-only. */
export type InvoiceChasing = {
  status: ChasingStatus
  /** The stage of the last reminder that was sent. */
  stage: NullableStage
  /** The stage of the next reminder. */
  next_stage: NullableStage
  next_action_at: NullableTimestamp
  last_message_at: NullableTimestamp
  /**
   * Why the next reminder is not sent: a `reason` of a message's `suppression`, or `awaiting_approval`,
   * `approval_rejected`, `before_chase_from` (the invoice fell due before the date from which the account
   * sends reminders), or `history` (the invoice was past due when it was created with `chase_if_overdue: false`).
   * `credit_on_account` means that the debtor's money on account covers the whole amount due. More values
   * may be added.
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
  /** The payment pays this invoice, up to its amount due. */
  invoice_id?: NullableReferenceId
  /**
   * The payment is divided among these invoices: each at most once, all of one debtor, together at most
   * `amount`. The rest is kept as `unapplied_amount`.
   */
  allocations?: {
    invoice_id: ReferenceId
    amount: AmountInput
  }[] | null
  /** The payment is kept on account for this debtor. */
  debtor_id?: NullableReferenceId
  /**
   * Accepts more than the amount due on an invoice, and keeps the surplus as `unapplied_amount`. The
   * default is false.
   */
  allow_overpayment?: boolean | null
  /**
   * When you received the money: from 2000-01-01 to tomorrow. The default is today in the account's time
   * zone.
   */
  received_on?: string | null
  /** How it was paid. The default is `other`. */
  method?: 'bank_transfer' | 'card' | 'direct_debit' | 'cash' | 'cheque' | 'other' | null
  /** The payer's reference. */
  reference?: string | null
  external_id?: ExternalIdInput
  metadata?: MetadataInput
}

/**
 * Money that was received. Its amount never changes. In the product, people can allocate money on account to
 * invoices, take an allocation back, and reverse the payment.
 */
export type Payment = {
  object: 'payment'
  id: PaymentId
  debtor_id: DebtorId
  external_id: ExternalId
  /** The amount received, in minor units. */
  amount: number
  currency: Currency
  currency_exponent: CurrencyExponent
  /**
   * The invoices that the payment pays at present; empty if all of it is on account. Allocations can be
   * made and taken back later.
   */
  allocations: Allocation[]
  /** The part that is not allocated to an invoice. */
  unapplied_amount: number
  /** When it was received. */
  received_on: string
  method: PaymentMethod
  /** The payer's reference. */
  reference: string | null
  /** Payments can only be reversed in the product. */
  status: 'recorded' | 'reversed'
  /** The idempotency key with which it was recorded; null if it was not recorded by this API. */
  idempotency_key: string | null
  /** Whether it was recorded by this API, in the product, or by an import. */
  source: 'api' | 'app' | 'import'
  recorded_by: Actor
  effects: PaymentEffects
  metadata: Metadata
  created_at: Timestamp
  /** When the payment was last changed: recorded, allocated or reversed. */
  updated_at: Timestamp
  revision: Revision
}

/** The part of a payment that pays one invoice. */
export type Allocation = {
  invoice_id: InvoiceId
  /** In minor units of the payment's currency. */
  amount: number
}

/** The effects of recording the payment, as they were at that time. */
export type PaymentEffects = {
  /** The invoices that the payment paid, in their state afterwards. */
  invoices: {
    id: InvoiceId
    status: InvoiceStatus
    amount_due: Amount
  }[]
  /** How many waiting messages about these invoices were cancelled. */
  messages_cancelled: number
  /** Messages about these invoices that were already being sent and could not be stopped. */
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
 * - `scheduled`: it will be sent later
 * - `awaiting_approval`, `approved`: a firm or final reminder before and after a person's approval
 * - `queued`: it is being sent
 * - `sent`, `delivered`, `bounced`, `failed`: it was sent, with this result
 * - `suppressed`: it was due but not sent; see `suppression`
 * - `cancelled`: no longer needed, for example because a payment was recorded
 * - `received`: sent by the debtor
 */
export type MessageStatus = 'scheduled' | 'awaiting_approval' | 'approved' | 'queued' | 'sent' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'cancelled' | 'received'

/** One message to or from a debtor, sent or not. */
export type Message = {
  object: 'message'
  id: MessageId
  debtor_id: DebtorId
  /** The invoices that the message is about; it can be about several. */
  invoice_ids: InvoiceId[]
  channel: MessageChannel
  /** To the debtor, or from the debtor. */
  direction: 'outbound' | 'inbound'
  /** The purpose of the message. */
  kind: 'reminder' | 'invoice_copy' | 'receipt' | 'statement' | 'reply'
  stage: NullableStage
  status: MessageStatus
  /** Why it was suppressed; null if it was not. */
  suppression: {
    /** The reason as a code. */
    reason: 'kill_switch' | 'demo' | 'invoice_paid' | 'payment_received' | 'credit_on_account' | 'account_read_only' | 'debtor_paused' | 'disputed' | 'unsubscribed' | 'bounced' | 'complained' | 'no_contact' | 'approval_rejected' | 'approval_expired' | 'duplicate' | 'send_window' | 'frequency_cap'
    /** The reason in words. */
    detail: string | null
  } | null
  /** The approval of a firm or final reminder; null for other messages. */
  approval: {
    /** Whether it must be approved before it is sent. */
    required: boolean
    /** The decision. It expires if the message changes after its approval. */
    status: 'pending' | 'approved' | 'rejected' | 'lapsed' | 'expired'
    /** Who approved or rejected it; null before the decision. */
    decided_by: string | null
    decided_at: NullableTimestamp
  } | null
  /** The recipient, masked. */
  to: string | null
  /** The subject line. */
  subject: string | null
  /** The beginning of the text, without markup. */
  preview: string | null
  /**
   * The amount that the message demands, in minor units: the amount due on its invoices when it was
   * created, minus money on account.
   */
  amount_due: number | null
  /** The currency of `amount_due`. */
  currency: string | null
  /** The decimals of `currency`. */
  currency_exponent: number | null
  /** How many days the oldest of its invoices was past due when it was created. */
  days_past_due: number | null
  /** What the mail provider reported. */
  delivery: {
    /** The provider's id of the message. */
    provider_message_id: string | null
    delivered_at: NullableTimestamp
    /** Why it bounced; null if it did not. */
    bounce: {
      /** Hard bounces are final; soft bounces are retried. */
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
  /** Identifies this occurrence. */
  instance?: string
  code: ProblemCode
  /** The same as `X-Request-Id`. */
  request_id: string
  /**
   * Whether the same call may succeed later. Repeat a POST only with the same `Idempotency-Key`, and wait
   * for `Retry-After` if the response has it.
   */
  retryable: boolean
}

/** The code of the error, for programs. Each code has an example under its status. */
export type ProblemCode = 'bad_request' | 'malformed_json' | 'duplicate_json_key' | 'invalid_query_parameter' | 'unknown_query_parameter' | 'invalid_cursor' | 'idempotency_key_required' | 'idempotency_key_invalid' | 'missing_api_key' | 'malformed_authorization' | 'invalid_api_key' | 'revoked_api_key' | 'expired_api_key' | 'insufficient_scope' | 'address_not_allowed' | 'not_found' | 'route_not_found' | 'method_not_allowed' | 'not_acceptable' | 'request_timeout' | 'idempotency_in_progress' | 'duplicate_external_id' | 'duplicate_invoice_number' | 'invoice_not_payable' | 'payload_too_large' | 'uri_too_long' | 'unsupported_media_type' | 'validation_failed' | 'idempotency_key_reused' | 'currency_mismatch' | 'unsupported_currency' | 'payment_exceeds_balance' | 'allocation_exceeds_payment' | 'total_mismatch' | 'debtor_not_found' | 'invoice_not_found' | 'account_read_only' | 'rate_limit_exceeded' | 'headers_too_large' | 'internal_error' | 'bad_gateway' | 'service_unavailable' | 'gateway_timeout'

/** The request is malformed. */
export type RequestProblem = Problem & {
  /** With `unknown_query_parameter` and `invalid_query_parameter`, the name of the parameter. */
  parameter?: string
  /** With `duplicate_json_key`, where the name occurs twice, as a JSON Pointer (RFC 6901). */
  pointer?: string
}

/** The key lacks a scope, or may not be used from the address of this call. */
export type ForbiddenProblem = Problem & {
  /**
   * With `insufficient_scope`, the scope that the call needs. The next two members are present with
   * this code only.
   */
  required_scope?: Scope
  /** What the key may do now, as `key.scopes` of `GET /api/v1/me`. */
  scopes?: Scope[]
  /**
   * What the key was issued with. If `required_scope` is among them, the account does not allow
   * it at present.
   */
  granted_scopes?: Scope[]
}

/** The call conflicts with an existing object. */
export type ConflictProblem = Problem & {
  /**
   * With `duplicate_external_id` and `duplicate_invoice_number`, the id of the object that already
   * uses the value.
   */
  existing_id?: string
  /** With `invoice_not_payable`, the invoice's status. */
  invoice_status?: InvoiceStatus
}

/** The body is too large. */
export type PayloadProblem = Problem & {
  /** The largest size that a body may have. */
  max_bytes: number
}

/** The body is well-formed, but was rejected. */
export type ValidationProblem = Problem & {
  /** Every field that is wrong. Present with every code but `idempotency_key_reused`. */
  errors?: FieldError[]
  /** With `currency_mismatch` and `total_mismatch`, the correct value. */
  expected?: number | string
  /** With `currency_mismatch` and `total_mismatch`, the value that was sent. */
  actual?: number | string
  /** With `payment_exceeds_balance`, the amount due on the invoice. */
  amount_due?: Amount
  /** With `idempotency_key_reused`, the debtor or invoice that was created with the key. */
  original_id?: string
  /** With `idempotency_key_reused`, the payment that was recorded with the key. */
  original_payment_id?: PaymentId
}

/** One field that is wrong. */
export type FieldError = {
  /** The field, as a JSON Pointer (RFC 6901) into the body that you sent. */
  pointer: string
  /**
   * One of `required`, `invalid_type`, `too_long`, `too_short`, `out_of_range`, `invalid_format`,
   * `invalid_enum`, `unknown_field`, `conflicting_field`, `not_in_future`, or the problem's own code.
   */
  code: string
  /** What is wrong with it. */
  detail: string
}

/** The account is read-only. */
export type ReadOnlyProblem = Problem & {
  /** The state of the account, which is the reason. */
  account_status: 'suspended' | 'cancelled' | 'trial_paused'
  /**
   * The page on which an Admin resumes a paused trial. For a suspended or cancelled account the page says
   * whom to contact.
   */
  resume_url: string
}

/** Something happened to a debtor. */
export type DebtorEvent = {
  id: EventId
  /** The type of the event. */
  type: 'debtor.created' | 'debtor.updated' | 'debtor.contactability_changed'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** The object that changed. */
  data: {
    object: Debtor
    previous: Previous
    revision: Revision
  }
}

/** Something happened to an invoice. */
export type InvoiceEvent = {
  id: EventId
  /** The type of the event. */
  type: 'invoice.created' | 'invoice.opened' | 'invoice.updated' | 'invoice.overdue' | 'invoice.partially_paid' | 'invoice.paid' | 'invoice.voided' | 'invoice.written_off' | 'invoice.credited' | 'invoice.reopened' | 'invoice.disputed' | 'invoice.dispute_resolved'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** The object that changed. */
  data: {
    object: Invoice
    previous: Previous
    revision: Revision
  }
}

/** Something happened to a payment. */
export type PaymentEvent = {
  id: EventId
  /** The type of the event. */
  type: 'payment.recorded' | 'payment.updated' | 'payment.reversed'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** The object that changed. */
  data: {
    object: Payment
    previous: Previous
    revision: Revision
  }
}

/** Something happened to a message. */
export type MessageEvent = {
  id: EventId
  /** The type of the event. */
  type: 'message.awaiting_approval' | 'message.sent' | 'message.delivered' | 'message.bounced' | 'message.suppressed' | 'message.received'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** The object that changed. */
  data: {
    object: Message
    previous: Previous
    revision: Revision
  }
}

/** Something happened to the account. */
export type AccountEvent = {
  id: EventId
  /** The type of the event. */
  type: 'account.read_only_changed'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** The object that changed. */
  data: {
    object: Account
    previous: Previous
    revision: NoRevision
  }
}

/** The kill switch was activated or released. */
export type KillSwitchEvent = {
  id: EventId
  /** The type of the event. */
  type: 'kill_switch.changed'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** The object that changed. */
  data: {
    object: KillSwitch
    previous: Previous
    revision: NoRevision
  }
}

/** Something happened to an API key. */
export type ApiKeyEvent = {
  id: EventId
  /** The type of the event. */
  type: 'api_key.issued' | 'api_key.updated' | 'api_key.expiring' | 'api_key.expired' | 'api_key.revoked'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** The object that changed. */
  data: {
    object: ApiKey
    previous: Previous
    revision: NoRevision
  }
}

/** A test; nothing happened. */
export type TestEvent = {
  id: EventId
  /** The type of the event. */
  type: 'webhook.test'
  timestamp: Timestamp
  api_version: EventVersion
  account_id: AccountId
  test?: EventTest
  /** The object that changed. */
  data: {
    object: WebhookTest
    previous: Previous
    revision: NoRevision
  }
}

/**
 * The version of the object: 1 when it is created, and one more with each change. Of two versions of an
 * object, keep the one with the higher revision, wherever you received them. An event has the revision of
 * its object.
 */
export type Revision = number

/** Only debtors, invoices, payments and messages have a revision. */
export type NoRevision = null

/**
 * The event's id, which is also the `webhook-id` of every attempt to deliver it. The same event may arrive
 * more than once: store the ids that you have processed.
 */
export type EventId = string

/** The version of the API in which its objects are represented. */
export type EventVersion = 'v1'

/** Present, and true, on test events only. Their objects are samples. */
export type EventTest = boolean

/** The account's id. */
export type AccountId = string

/** The previous values of the members of `object` that changed; null if the object is new. */
export type Previous = Record<string, unknown> | null

/** An account, as in `GET /api/v1/me`. */
export type Account = {
  object: 'account'
  id: AccountId
  /** The account's name. */
  name: string
  status: AccountStatus
  /** Whether writes are rejected with 423. */
  read_only: boolean
  /** The IANA time zone of the account's calendar dates. */
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
  /** Whether calls with the key are accepted. */
  status: 'active' | 'expired' | 'revoked'
  /** The scopes that the key was issued with. */
  granted_scopes: Scope[]
  /** Calls per hour. */
  rate_limit: number
  expires_at: NullableTimestamp
  /** The address prefixes from which the key may be used; null if it may be used from any address. */
  allowed_addresses: string[] | null
  /** The id of the key that a rotation issued in place of this one. */
  replaced_by: string | null
  created_at: Timestamp
  /** Who issued it. */
  created_by: string
  last_used_at: NullableTimestamp
  revoked_at: NullableTimestamp
  /** Who revoked it; null while it is active. */
  revoked_by: string | null
}

/**
 * The switch that stops every reminder at once. While it is active, no reminder is sent. Activating it
 * suppresses the reminders that were waiting; after its release, reminders are scheduled from that day on.
 */
export type KillSwitch = {
  object: 'kill_switch'
  /** Whether this is the switch of the account or that of the whole installation. */
  scope: 'account' | 'installation'
  /** Whether the switch is active. */
  on: boolean
  /** Why it was activated; null while it is released. */
  reason: string | null
  changed_at: NullableTimestamp
  /** Who activated or released it. */
  changed_by: string | null
}

/** The object of a test event. */
export type WebhookTest = {
  object: 'webhook_test'
  /** A text that says that this is a test. */
  message: string
}
