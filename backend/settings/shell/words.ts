import { SCOPES, type Scope } from '../../accounts/scopes.ts'
import { dateFormats } from '../../calendar/date-formats.ts'
import { type Html, html } from '../../html/html.ts'

export const SCOPE_WORDS: Readonly<Record<Scope, string>> = {
  'debtors:read': 'Read customers',
  'debtors:write': 'Create customers',
  'invoices:read': 'Read invoices',
  'invoices:write': 'Create invoices',
  'payments:read': 'Read payments',
  'payments:write': 'Record payments',
  'messages:read': 'Read the message log',
}

type Resource = Scope extends `${infer R}:${string}` ? R : never

const RESOURCE_WORDS: Readonly<Record<Resource, string>> = {
  debtors: 'Customers',
  invoices: 'Invoices',
  payments: 'Payments',
  messages: 'Messages',
}

export const SCOPE_GROUPS = Object.entries(RESOURCE_WORDS).map(
  ([resource, name]) => [name, SCOPES.filter((scope) => scope.startsWith(`${resource}:`))] as const,
)

export const READ_SCOPES = SCOPES.filter((scope) => scope.endsWith(':read'))

export interface TimeContext {
  readonly now: Date
  readonly timezone: string
}

/** Renders a relative time such as `4 minutes ago`, with the exact time as a tooltip. */
export function timeAgo(at: string, { now, timezone }: TimeContext): Html {
  const exact = exactTime(at, timezone)
  return html`<time datetime="${at}" title="${exact}">${agoWords(at, now)}</time>`
}

/** Renders a relative time with the exact time below it, for facts that people act on. */
export function timeAgoExact(at: string, times: TimeContext): Html {
  return html`${timeAgo(at, times)} <span class="stamp">${exactTime(at, times.timezone)}</span>`
}

export function exactTime(at: string, timezone: string): string {
  return exactTimes(timezone).format(new Date(at))
}

const exactTimes = dateFormats('en-GB', { dateStyle: 'medium', timeStyle: 'short' })

const MINUTE_S = 60
const HOUR_S = 60 * MINUTE_S
const DAY_S = 24 * HOUR_S

export function agoWords(at: string, now: Date): string {
  const seconds = Math.max(0, Math.round((now.getTime() - Date.parse(at)) / 1000))
  if (seconds < MINUTE_S) return 'just now'
  if (seconds < HOUR_S) return relativeTimes.format(-Math.floor(seconds / MINUTE_S), 'minute')
  if (seconds < DAY_S) return relativeTimes.format(-Math.floor(seconds / HOUR_S), 'hour')
  return relativeTimes.format(-Math.floor(seconds / DAY_S), 'day')
}

const relativeTimes = new Intl.RelativeTimeFormat('en', { numeric: 'always' })

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`
}
