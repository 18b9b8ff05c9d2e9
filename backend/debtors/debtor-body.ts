import { metadata, object, optional, required } from '../validation/body.ts'
import { country, email, language, phone } from '../validation/contact.ts'
import { currency, externalId, integer, text, timezone } from '../validation/fields.ts'
import type { NewDebtor } from './debtors.ts'

interface AddressBody {
  readonly line1?: string
  readonly line2?: string
  readonly city?: string
  readonly region?: string
  readonly postal_code?: string
  readonly country?: string
}

export interface DebtorBody {
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

const addressPart = optional(text({ max: 200, min: 0 }))

export const debtorBody = object<DebtorBody>({
  external_id: optional(externalId),
  name: required(text({ max: 200, trim: true })),
  email: optional(email),
  phone: optional(phone),
  language: optional(language),
  currency: optional(currency),
  payment_terms_days: optional(integer({ min: 0, max: 365 })),
  timezone: optional(timezone),
  address: optional(
    object<AddressBody>({
      line1: addressPart,
      line2: addressPart,
      city: addressPart,
      region: addressPart,
      postal_code: addressPart,
      country: optional(country),
    }),
  ),
  tax_id: optional(text({ max: 64, min: 0 })),
  company_number: optional(text({ max: 64, min: 0 })),
  metadata,
})

export function newDebtor(body: DebtorBody): NewDebtor {
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
    taxId: body.tax_id || null,
    companyNumber: body.company_number || null,
    metadata: body.metadata ?? {},
  }
}

/** The API returns an address as it is stored: null, or an object with all members. */
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
