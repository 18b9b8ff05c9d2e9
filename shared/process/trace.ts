/**
 * W3C Trace Context, level 2: determines the trace of a call. The forwarded headers name one of our own spans as the
 * parent.
 */
import { randomHex } from './random.ts'

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const TRACESTATE_LENGTH_MAX = 512
const TRACESTATE_MEMBERS_MAX = 32
/** Section 3.3.1.3: a key, `=`, and a value that does not end with a space. */
const TRACESTATE_MEMBER =
  /^[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/
/** The flags that are defined: whether the trace is sampled, and whether its id is random. */
const SAMPLED = 1
const RANDOM_ID = 2

export interface Trace {
  /** 32 hexadecimal digits. */
  readonly id: string
  /** The caller's span; undefined if the trace begins here. */
  readonly parentSpanId: string | undefined
  readonly flags: number
  /** The `tracestate` that the caller sent; empty if there is none or it is invalid. */
  readonly state: string
}

/** Returns the trace in the headers; undefined if `traceparent` is missing or invalid. */
export function continueTrace(
  traceparent: string | undefined,
  tracestate: string | undefined,
): Trace | undefined {
  if (traceparent === undefined) return undefined
  const [, version = 'ff', id = '', parentSpanId = '', flags = '', rest] =
    TRACEPARENT.exec(traceparent) ?? []
  // `ff` is never a valid version, so it is the default for a text that does not match. Only versions after `00` may
  // have further fields.
  const isVersionValid = version !== 'ff' && (version !== '00' || rest === undefined)
  if (!isVersionValid || /^0+$/.test(id) || /^0+$/.test(parentSpanId)) return undefined
  const knownFlags = Number.parseInt(flags, 16) & (SAMPLED | RANDOM_ID)
  return { id, parentSpanId, flags: knownFlags, state: readState(tracestate) }
}

export function beginTrace(sampled: boolean): Trace {
  const flags = sampled ? SAMPLED | RANDOM_ID : RANDOM_ID
  return { id: randomHex(16), parentSpanId: undefined, flags, state: '' }
}

/** Returns the headers that propagate the trace, with `spanId` as the parent of the next spans. */
export function traceHeaders({ id, flags, state }: Trace, spanId: string): Record<string, string> {
  const traceparent = `00-${id}-${spanId}-0${flags}`
  return state === '' ? { traceparent } : { traceparent, tracestate: state }
}

export function isSampled({ flags }: Trace): boolean {
  return (flags & SAMPLED) !== 0
}

export function createSpanId(): string {
  return randomHex(8)
}

/** Returns the state without empty members. Returns an empty text if the state is missing, too long or invalid. */
function readState(tracestate: string | undefined): string {
  if (tracestate === undefined || tracestate.length > TRACESTATE_LENGTH_MAX) return ''
  const members = tracestate
    .split(',')
    .map((member) => member.trim())
    .filter((member) => member !== '')
  const keys = new Set(members.map((member) => member.split('=', 1)[0]))
  const isValid =
    members.length <= TRACESTATE_MEMBERS_MAX &&
    keys.size === members.length &&
    members.every((member) => TRACESTATE_MEMBER.test(member))
  return isValid ? members.join(',') : ''
}
