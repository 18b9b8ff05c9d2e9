import type { Problem } from '../../../shared/contract/problem.ts'
import {
  addDays,
  isCalendarDate,
  parseInstant,
  startOfDay,
  todayIn,
} from '../../calendar/calendar.ts'
import { type Html, html } from '../../html/html.ts'
import { rejectField } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import { describedBy, renderFieldFaults } from '../shell/layout.ts'

/**
 * In JSON, a request contains the time `expires_at` and a list of addresses. In a form, it contains the date
 * `expires_on` and a text with one address per line.
 */
export const RESTRICTION_FIELDS = {
  texts: ['expires_at', 'expires_on'],
  lists: ['allowed_addresses'],
} as const

/**
 * Returns null if the expiry is empty, which means that the key does not expire, and undefined if the request contains
 * no expiry. A form sends the last day of use: the key expires at the end of this day in the account's time zone.
 * Throws `Problem` `validation_failed`.
 */
export function readExpiry(fields: Fields, timezone: string): Date | null | undefined {
  if (fields.has('expires_at')) {
    const text = fields.text('expires_at')
    return text === '' ? null : (parseInstant(text) ?? invalidExpiry('a time with a UTC offset'))
  }
  if (!fields.has('expires_on')) return undefined
  const date = fields.text('expires_on')
  if (date === '') return null
  return isCalendarDate(date) ? startOfDay(addDays(date, 1), timezone) : invalidExpiry('a date')
}

/** The error names `expires_at` for a form too, because this is the id of the form's input. */
function invalidExpiry(what: string): never {
  return rejectField('expires_at', `The expiry must be ${what}.`)
}

/** Returns the last day of use, or an empty text if the key does not expire. */
export function lastDayOf(expiresAt: string | null, timezone: string): string {
  return expiresAt === null ? '' : todayIn(timezone, new Date(Date.parse(expiresAt) - 1))
}

/**
 * Reads addresses that are separated by line breaks, spaces or commas. Returns undefined if the request does not
 * contain the field, and an empty list if the field is empty.
 */
export function readAddresses(fields: Fields): readonly string[] | undefined {
  if (!fields.has('allowed_addresses')) return undefined
  return fields.list('allowed_addresses').flatMap((text) => text.split(/[\s,]+/).filter(Boolean))
}

export interface ExpiryAndAddresses {
  /** The last day of use, YYYY-MM-DD, as a form sends it. */
  readonly expiresOn: string
  readonly addresses: readonly string[]
  readonly timezone: string
}

export function renderExpiryField(
  { expiresOn, timezone }: Pick<ExpiryAndAddresses, 'expiresOn' | 'timezone'>,
  problem: Problem | undefined,
  hint = 'Leave it empty for a key that does not expire.',
): Html {
  return html`<p class="field"><label for="expires_at">Last day of use (optional)</label>
<input id="expires_at" name="expires_on" type="date" value="${expiresOn}"${describedBy(problem, 'expires_at', 'expires-hint')}></p>
<p class="hint" id="expires-hint">The key expires at the end of this day, in ${timezone} time. ${hint}</p>
${renderFieldFaults(problem, 'expires_at')}`
}

export function renderAddressField(
  { addresses }: Pick<ExpiryAndAddresses, 'addresses'>,
  problem: Problem | undefined,
): Html {
  return html`<p class="field"><label for="allowed_addresses">Allowed IP addresses (optional)</label>
<textarea id="allowed_addresses" name="allowed_addresses" rows="3" spellcheck="false" autocomplete="off"
translate="no"${describedBy(problem, 'allowed_addresses', 'addresses-hint')}>${addresses.join('\n')}</textarea></p>
<p class="hint" id="addresses-hint">IPv4 or IPv6 addresses or networks that calls must come from, one per line, for example
203.0.113.0/24. Calls from elsewhere are rejected. Leave it empty to allow any address.</p>
${renderFieldFaults(problem, 'allowed_addresses')}`
}
