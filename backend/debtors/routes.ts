import { listOperation } from '../api/list.ts'
import type { Call, Operation } from '../api/operation.ts'
import { readOperation } from '../api/read.ts'
import { writeOperation } from '../api/write.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { Reader } from '../database/database.ts'
import type { DebtorRow } from '../database/tables.ts'
import { metadata, object, optional, required } from '../validation/body.ts'
import { country, email, language, parseEmail, phone } from '../validation/contact.ts'
import {
  currency,
  externalId,
  integer,
  oneOf,
  parsed,
  text,
  timezone,
} from '../validation/fields.ts'
import { readBalances } from './balances.ts'
import { createDebtor, findDebtor, listDebtors, type NewDebtor } from './debtors.ts'
import { renderDebtor } from './representation.ts'

interface AddressBody {
  readonly line1?: string
  readonly line2?: string
  readonly city?: string
  readonly region?: string
  readonly postal_code?: string
  readonly country?: string
}

interface DebtorBody {
  readonly external_id?: string
  readonly name: string
  readonly email?: string
  readonly phone?: string
  readonly language?: string
  readonly currency?: string
  readonly payment_terms_days?: number
  readonly timezone?: string
  readonly address?: AddressBody
  readonly tax_id?: string
  readonly company_number?: string
  readonly metadata?: Record<string, string>
}

const addressLine = optional(text({ max: 200, min: 0 }))

const debtorBody = object<DebtorBody>({
  external_id: optional(externalId),
  name: required(text({ max: 200, trim: true })),
  email: optional(email),
  phone: optional(phone),
  language: optional(language),
  currency: optional(currency),
  payment_terms_days: optional(integer({ min: 0, max: 365 })),
  timezone: optional(timezone),
  address: object<AddressBody>({
    line1: addressLine,
    line2: addressLine,
    city: addressLine,
    region: addressLine,
    postal_code: addressLine,
    country: optional(country),
  }).empty(null),
  tax_id: optional(text({ max: 64, min: 0 })),
  company_number: optional(text({ max: 64, min: 0 })),
  metadata,
})

const FILTERS = {
  external_id: text({ max: 128 }),
  // As it is kept where it is an address; any other text finds nothing.
  email: parsed((value) => parseEmail(value) ?? value, 'text', { max: 254 }),
  q: text({ max: 200 }),
  status: oneOf(['active', 'archived']),
}

export const debtorOperations: readonly Operation[] = [
  listOperation({
    operationId: 'listDebtors',
    sorts: ['created_at', 'updated_at'],
    filters: FILTERS,
    find: (reader, { caller }, filters, page) =>
      listDebtors(reader, caller.account.id, filters, page),
    render: renderDebtors,
  }),
  readOperation({
    operationId: 'getDebtor',
    async read(reader, call) {
      const row = await findDebtor(reader, call.caller.account.id, call.id)
      const [debtor] = row === undefined ? [] : await renderDebtors(reader, call, [row])
      return debtor
    },
  }),
  writeOperation({
    operationId: 'createDebtor',
    body: debtorBody,
    idempotencyKey: 'optional',
    originalMember: 'original_id',
    async create(tx, { caller: { account }, now }, body) {
      const owner = { accountId: account.id, isDemo: account.isDemo }
      const row = await createDebtor(tx, owner, newDebtor(body), now)
      return { id: row.id, representation: renderDebtor(row, []) }
    },
  }),
]

function newDebtor(body: DebtorBody): NewDebtor {
  return {
    name: body.name,
    externalId: body.external_id ?? null,
    email: body.email ?? null,
    phone: body.phone ?? null,
    language: body.language ?? null,
    timezone: body.timezone ?? null,
    currency: body.currency ?? null,
    paymentTermsDays: body.payment_terms_days ?? null,
    address: newAddress(body.address),
    // An empty text is none.
    taxId: body.tax_id || null,
    companyNumber: body.company_number || null,
    metadata: body.metadata ?? {},
  }
}

/** Every part present, so that it can be shown as it is kept. */
function newAddress(body: AddressBody = {}): object | null {
  if (Object.values(body).every((part) => part === '')) return null
  return {
    line1: body.line1 || null,
    line2: body.line2 || null,
    city: body.city || null,
    region: body.region || null,
    postal_code: body.postal_code || null,
    country: body.country ?? null,
  }
}

async function renderDebtors(reader: Reader, call: Call, rows: readonly DebtorRow[]) {
  const { id, timezone: zone } = call.caller.account
  const ids = rows.map((row) => row.id)
  const balances = await readBalances(reader, id, ids, todayIn(zone, call.now))
  return rows.map((row) => renderDebtor(row, balances.get(row.id) ?? []))
}
