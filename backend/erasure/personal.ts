import type { JsonObject } from '../validation/json.ts'

export const ERASED_TEXT = '[erased]'

/** The replacements for personal data in objects, by the type of the object (the value of its member `object`). */
const PERSONAL: Readonly<Record<string, Replacements>> = {
  debtor: {
    name: ERASED_TEXT,
    email: null,
    phone: null,
    address: null,
    tax_id: null,
    company_number: null,
    // A user may have mentioned the customer in the reason of a pause.
    chasing: withMemberNulled('reason'),
    metadata: {},
  },
  invoice: { notes: null, payment_url: null, metadata: {} },
  payment: { reference: null, metadata: {} },
  message: { to: null, subject: null, preview: null, suppression: withMemberNulled('detail') },
}

/** By member: its value after an erasure, or the result of `withMemberNulled`. */
type Replacements = JsonObject

/** Marks a member that contains an object. In this object, `replace` changes only `innerMember`, to null. */
function withMemberNulled(innerMember: string): JsonObject {
  return { nulled: innerMember }
}

export function responseWithoutPersonalData(text: string): string {
  return rewrite(text, (object) => scrub(kindOf(object), object))
}

export function eventWithoutPersonalData(text: string): string {
  return rewrite(text, (event) => {
    const data = membersOf(event['data'])
    const kind = kindOf(membersOf(data['object']))
    const parts = (['object', 'previous'] as const).map((name) => {
      const part = data[name]
      return [name, part === null ? null : scrub(kind, membersOf(part))]
    })
    return { ...event, data: { ...data, ...Object.fromEntries(parts) } }
  })
}

/** Replaces the members of an audit entry's detail that may name the customer, such as the reason. */
export function detailWithoutPersonalData(text: string): string {
  const replacements = { name: ERASED_TEXT, address: ERASED_TEXT, reason: ERASED_TEXT }
  return rewrite(text, (detail) => replace(detail, replacements))
}

/** Removes the recipient from a reminder's `facts`, the values with which the reminder was planned. */
export function factsWithoutPersonalData(text: string): string {
  return rewrite(text, (facts) => replace(facts, { recipient: null }))
}

/** Changes a JSON text. A text without members, such as `null` or `{}`, is returned unchanged. */
function rewrite(text: string, change: (members: JsonObject) => JsonObject): string {
  const members = membersOf(JSON.parse(text))
  return Object.keys(members).length === 0 ? text : JSON.stringify(change(members))
}

/**
 * A debtor with `erased_at` is returned unchanged. Its JSON was written after the erasure, so it contains no personal
 * data, and its `chasing.reason`, which is `erased`, must stay. Objects of other types have no `erased_at`.
 */
function scrub(kind: string, object: JsonObject): JsonObject {
  if (typeof object['erased_at'] === 'string') return object
  return replace(object, PERSONAL[kind] ?? {})
}

/**
 * Replaces only members that are present, because the previous values in an event include only changed members.
 */
function replace(object: JsonObject, replacements: Replacements): JsonObject {
  const entries = Object.entries(object).map(([name, value]) => {
    if (!(name in replacements)) return [name, value]
    const { nulled } = membersOf(replacements[name])
    if (nulled === undefined) return [name, replacements[name]]
    return [name, value === null ? null : { ...membersOf(value), [String(nulled)]: null }]
  })
  return Object.fromEntries(entries)
}

function kindOf(object: JsonObject): string {
  return String(object['object'])
}

function membersOf(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
