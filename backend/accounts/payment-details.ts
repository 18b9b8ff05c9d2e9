/**
 * The payment details of an account, one set for each currency: a bank account, a payment link, or both. A
 * reminder shows the details for the currencies of its invoices.
 */
import { createHash } from 'node:crypto'
import { Problem } from '../../shared/contract/problem.ts'
import type { PaymentDetailsRow, Reader, Transaction } from '../database/tables.ts'
import { type FieldError, fieldErrorsProblem } from '../validation/field-errors.ts'
import { currency as currencyRule, httpsUrl, matching, parsed, text } from '../validation/fields.ts'
import { type Check, check, Rejection } from '../validation/rejections.ts'
import { lockAccount } from './accounts.ts'
import { type ActionContext, recordAudit } from './audit.ts'

export const PAYMENT_FIELDS = [
  'account_holder',
  'account_number',
  'bank_code',
  'bank_name',
  'payment_link',
] as const satisfies readonly (keyof PaymentDetailsRow)[]

export type PaymentDetails = Pick<PaymentDetailsRow, (typeof PAYMENT_FIELDS)[number]> & {
  readonly currency: string
}

/** A field that is '' or absent is stored as null. */
export type PaymentDetailsInput = Partial<Record<(typeof PAYMENT_FIELDS)[number], string>>

/** Returns the details, sorted by currency. */
export async function readPaymentDetails(
  reader: Reader,
  accountId: string,
): Promise<PaymentDetails[]> {
  return reader
    .selectFrom('payment_details')
    .select(['currency', ...PAYMENT_FIELDS])
    .where('account_id', '=', accountId)
    .orderBy('currency')
    .execute()
}

/** Returns the account number as an IBAN in groups of four, or undefined if it is not an IBAN. */
export function formatIban(accountNumber: string): string | undefined {
  return isIban(accountNumber) ? accountNumber.replace(/(.{4})(?=.)/g, '$1 ') : undefined
}

/**
 * Returns the digest of the payment details that the text of a reminder shows; null if `shown` is empty. The digest is
 * stored with the reminder. If it differs from the digest of the current details, the text is outdated.
 */
export function paymentDetailsDigest(shown: readonly PaymentDetails[]): string | null {
  if (shown.length === 0) return null
  const values = shown.map((details) => [
    details.currency,
    ...PAYMENT_FIELDS.map((name) => details[name]),
  ])
  return createHash('sha256').update(JSON.stringify(values)).digest('base64url')
}

/**
 * Replaces all details of the currency, and returns whether something changed. Throws `not_found`,
 * `unsupported_currency`, and `validation_failed` with the pointers of the fields.
 */
export async function setPaymentDetails(
  tx: Transaction,
  accountId: string,
  currency: string,
  input: PaymentDetailsInput,
  actionContext: ActionContext,
): Promise<boolean> {
  const details = checkDetails(checkCurrency(currency), input)
  await lockAccount(tx, accountId)
  const before = await findDetails(tx, accountId, details.currency)
  if (before !== undefined && PAYMENT_FIELDS.every((name) => before[name] === details[name])) {
    return false
  }
  const values = { ...details, updated_at: actionContext.now.toISOString() }
  await tx
    .insertInto('payment_details')
    .values({ account_id: accountId, ...values })
    .onConflict((conflict) => conflict.columns(['account_id', 'currency']).doUpdateSet(values))
    .execute()
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'account.payment_details_changed',
    subjectId: accountId,
    detail: { ...details, before: before ?? null },
  })
  return true
}

/** Throws `not_found` if the account does not exist or has no such details. */
export async function removePaymentDetails(
  tx: Transaction,
  accountId: string,
  currency: string,
  actionContext: ActionContext,
): Promise<void> {
  await lockAccount(tx, accountId)
  const before = await findDetails(tx, accountId, currency)
  if (before === undefined) {
    throw new Problem('not_found', `There are no payment details for ${currency}.`)
  }
  await tx
    .deleteFrom('payment_details')
    .where('account_id', '=', accountId)
    .where('currency', '=', currency)
    .execute()
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'account.payment_details_removed',
    subjectId: accountId,
    detail: { currency, before },
  })
}

function findDetails(reader: Reader, accountId: string, currency: string) {
  return reader
    .selectFrom('payment_details')
    .select(['currency', ...PAYMENT_FIELDS])
    .where('account_id', '=', accountId)
    .where('currency', '=', currency)
    .executeTakeFirst()
}

const CHECKS: Readonly<Record<(typeof PAYMENT_FIELDS)[number], Check<string>>> = {
  account_holder: text({ max: 140, trim: true }),
  account_number: parsed(
    parseAccountNumber,
    'an IBAN with correct check digits, or an account number of 4 to 34 letters, digits and hyphens',
  ),
  bank_code: matching(/^[A-Z0-9][A-Z0-9 -]{0,19}$/, 'a BIC, a sort code or a routing number', {
    max: 20,
  }),
  bank_name: text({ max: 100, trim: true }),
  payment_link: httpsUrl,
}

function checkCurrency(text: string): string {
  const checked = check(currencyRule, text)
  if (!(checked instanceof Rejection)) return checked
  throw fieldErrorsProblem([
    { pointer: '/currency', code: checked.code, detail: `currency ${checked.detail}` },
  ])
}

function checkDetails(currency: string, input: PaymentDetailsInput): PaymentDetails {
  const errors: FieldError[] = []
  const read = (name: (typeof PAYMENT_FIELDS)[number]): string | null => {
    const entered = (input[name] ?? '').trim()
    const value = name === 'bank_code' ? entered.toUpperCase() : entered
    if (value === '') return null
    const checked = check(CHECKS[name], value)
    if (!(checked instanceof Rejection)) return checked
    errors.push({ pointer: `/${name}`, code: checked.code, detail: `${name} ${checked.detail}` })
    return null
  }
  const details = {
    currency,
    account_holder: read('account_holder'),
    account_number: read('account_number'),
    bank_code: read('bank_code'),
    bank_name: read('bank_name'),
    payment_link: read('payment_link'),
  }
  const isInvalid = (name: string) => errors.some(({ pointer }) => pointer === `/${name}`)
  const { account_holder: holder, account_number: number, payment_link: link } = details
  const hasOtherBankField =
    holder !== null || details.bank_code !== null || details.bank_name !== null
  if (number === null && !isInvalid('account_number') && (hasOtherBankField || link === null)) {
    const detail = hasOtherBankField
      ? 'account_number is required for a bank account'
      : 'account_number is required unless payment_link is given'
    errors.push({ pointer: '/account_number', code: 'required', detail })
  }
  if (number !== null && holder === null && !isInvalid('account_holder')) {
    const detail = 'account_holder is required: banks compare it with the account'
    errors.push({ pointer: '/account_holder', code: 'required', detail })
  }
  if (errors.length > 0) throw fieldErrorsProblem(errors)
  return details
}

/**
 * Returns the number in upper case and without spaces; undefined if it is invalid. If it looks like an IBAN, its check
 * digits must be correct; all hyphens and the word IBAN at the beginning are removed.
 */
function parseAccountNumber(entered: string): string | undefined {
  const number = entered.toUpperCase().replace(/\s/g, '')
  const bare = number.replace(/^IBAN:?/, '').replaceAll('-', '')
  if (looksLikeIban(bare)) return isIban(bare) ? bare : undefined
  return /^[A-Z0-9][A-Z0-9-]{3,33}$/.test(number) ? number : undefined
}

function looksLikeIban(number: string): boolean {
  return /^[A-Z]{2}\d{2}[A-Z0-9]{8,}$/.test(number)
}

/**
 * ISO 13616: if the first four characters are moved to the end and each letter is replaced with its number (A
 * is 10), the result modulo 97 must be 1.
 */
function isIban(number: string): boolean {
  if (!looksLikeIban(number) || number.length > 34) return false
  const digits = [...number.slice(4), ...number.slice(0, 4)]
    .map((character) => Number.parseInt(character, 36))
    .join('')
  return BigInt(digits) % 97n === 1n
}
