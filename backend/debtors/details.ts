import type { FieldError } from '../../shared/contract/problem.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import type { Transaction } from '../database/database.ts'
import type { DebtorRow } from '../database/tables.ts'
import { country, email, language, phone } from '../validation/contact.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { text, timezone } from '../validation/fields.ts'
import { type Check, check, Rejection } from '../validation/rejections.ts'
import { changeDebtor, type DebtorChange, getLockedDebtor } from './change.ts'
import { normalizeForSearch } from './debtors.ts'
import { readContactability } from './suppressed-addresses.ts'

const CHECKS = {
  name: text({ max: 200, trim: true }),
  email,
  phone,
  language,
  timezone,
} satisfies Record<string, Check<string>>

const addressPart = text({ max: 200, min: 0 })
const ADDRESS_CHECKS = {
  line1: addressPart,
  line2: addressPart,
  city: addressPart,
  region: addressPart,
  postal_code: addressPart,
  country,
} satisfies Record<string, Check<string>>

export const ADDRESS_PARTS = [
  'line1',
  'line2',
  'city',
  'region',
  'postal_code',
  'country',
] as const satisfies readonly (keyof typeof ADDRESS_CHECKS)[]

export const DETAILS = ['name', 'email', 'phone', 'language', 'timezone'] as const

export const DETAIL_LABELS: Readonly<
  Record<(typeof DETAILS)[number] | (typeof ADDRESS_PARTS)[number], string>
> = {
  name: 'Name',
  email: 'E-mail',
  phone: 'Telephone',
  language: 'Language',
  timezone: 'Time zone',
  line1: 'Street and number',
  line2: 'Second line',
  city: 'City',
  region: 'Region',
  postal_code: 'Postal code',
  country: 'Country',
}

/** An omitted member leaves its value unchanged. An empty text removes the value, but an empty name is an error. */
export type DebtorDetails = Partial<
  Record<(typeof DETAILS)[number] | (typeof ADDRESS_PARTS)[number], string>
>

/** Throws `not_found`, `debtor_state_conflict`, and `validation_failed` with all errors. */
export async function editDebtor(
  tx: Transaction,
  accountId: string,
  id: string,
  details: DebtorDetails,
  actionContext: ActionContext,
): Promise<DebtorRow> {
  const debtor = await getLockedDebtor(tx, accountId, id)
  const change = withoutUnchanged(debtor, checkDetails(debtor, details))
  const names = Object.keys(change).filter((name) => name !== 'name_search')
  if (names.length === 0) return debtor
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'debtor.edited',
    subjectId: id,
    detail: { name: change.name ?? debtor.name, changed: names },
  })
  const contactability = await contactabilityAfter(tx, debtor, change)
  return changeDebtor(tx, debtor, { ...change, ...contactability }, actionContext.now)
}

/**
 * If the old e-mail address is suppressed, e.g. because mail to it bounced, a new address does not change the
 * contactability. Later, an Admin or an operator can confirm that the new address works (`clearSuppression`).
 */
async function contactabilityAfter(
  tx: Transaction,
  debtor: DebtorRow,
  { email: address }: DebtorChange,
): Promise<DebtorChange> {
  if (address === undefined) return {}
  const isSuppressed = !['ok', 'missing'].includes(debtor.contactability_email)
  if (isSuppressed && address !== null) return {}
  return { contactability_email: await readContactability(tx, debtor.account_id, address) }
}

function checkDetails(debtor: DebtorRow, details: DebtorDetails): DebtorChange {
  const errors: FieldError[] = []
  const checkDetail = (
    name: keyof DebtorDetails,
    value: string,
    rule: Check<string>,
  ): string | null => {
    // Only the name is required.
    if (value === '' && name !== 'name') return null
    const checked = check(rule, value)
    if (!(checked instanceof Rejection)) return checked || null
    errors.push({
      pointer: `/${name}`,
      code: checked.code,
      detail: `${DETAIL_LABELS[name]} ${checked.detail}.`,
    })
    return null
  }
  const change: Record<string, string | null> = {}
  for (const name of DETAILS) {
    const value = details[name]
    if (value !== undefined) change[name] = checkDetail(name, value.trim(), CHECKS[name])
  }
  const address = addressOf(debtor)
  for (const part of ADDRESS_PARTS) {
    const value = details[part]
    if (value !== undefined) address[part] = checkDetail(part, value.trim(), ADDRESS_CHECKS[part])
  }
  if (errors.length > 0) throw enteredValuesProblem(errors)
  const { name, ...others } = change
  const isEmpty = Object.values(address).every((part) => part === null)
  return {
    ...others,
    ...(name === undefined || name === null ? {} : { name, name_search: normalizeForSearch(name) }),
    address: isEmpty ? null : JSON.stringify(address),
  }
}

export type Address = Record<(typeof ADDRESS_PARTS)[number], string | null>

/** A member without a value is null. */
export function addressOf({ address }: Pick<DebtorRow, 'address'>): Address {
  const stored: unknown = address === null ? {} : JSON.parse(address)
  const parts = new Map(Object.entries(typeof stored === 'object' && stored !== null ? stored : {}))
  const part = (name: string) => {
    const value: unknown = parts.get(name)
    return typeof value === 'string' ? value : null
  }
  return {
    line1: part('line1'),
    line2: part('line2'),
    city: part('city'),
    region: part('region'),
    postal_code: part('postal_code'),
    country: part('country'),
  }
}

function withoutUnchanged(debtor: DebtorRow, change: DebtorChange): DebtorChange {
  const current = new Map<string, unknown>(Object.entries(debtor))
  return Object.fromEntries(
    Object.entries(change).filter(([name, value]) => current.get(name) !== value),
  )
}
