/**
 * W3C Trace Context, level 2: which trace a call belongs to. A caller's is continued where its headers
 * are as the standard says, else one begins here; what is passed on names a span of our own.
 */
import { randomHex } from './random.ts'

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const TRACESTATE_LENGTH_MAX = 512
const TRACESTATE_MEMBERS_MAX = 32
/** Section 3.3.1.3: a key, `=`, and a value that does not end with a space. */
const TRACESTATE_MEMBER =
  /^[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/
/** Of the flags, those that are known: sampled, and a trace id that is random. */
const SAMPLED = 1
const RANDOM_ID = 2

export interface Trace {
  /** 32 hexadecimal digits. */
  readonly id: string
  /** The caller's span; undefined where the trace begins here. */
  readonly parentSpanId: string | undefined
  readonly flags: number
  /** What other vendors keep with it, or empty. */
  readonly state: string
}

/** Continues the trace that the headers name, or begins one; `isSampled` then decides whether it is kept. */
export function readTrace(
  traceparent: string | undefined,
  tracestate: string | undefined,
  isSampled: (id: string) => boolean,
): Trace {
  const [, version = 'ff', id = '', parentSpanId = '', flags = '', rest] =
    TRACEPARENT.exec(traceparent ?? '') ?? []
  // Versions to come may have more behind it; those of today may not.
  const isKnown = version !== 'ff' && (version !== '00' || rest === undefined)
  if (!isKnown || /^0+$/.test(id) || /^0+$/.test(parentSpanId)) {
    const fresh = randomHex(16)
    const sampled = isSampled(fresh) ? SAMPLED : 0
    return { id: fresh, parentSpanId: undefined, flags: sampled | RANDOM_ID, state: '' }
  }
  const kept = Number.parseInt(flags, 16) & (SAMPLED | RANDOM_ID)
  return { id, parentSpanId, flags: kept, state: readState(tracestate) }
}

/** The headers that pass the trace on, with `spanId` as the parent of what comes of it. */
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

/** All of it or nothing: what is cut would be wrong. */
function readState(tracestate: string | undefined): string {
  if (tracestate === undefined || tracestate.length > TRACESTATE_LENGTH_MAX) return ''
  const members = tracestate
    .split(',')
    .map((member) => member.trim())
    .filter((member) => member !== '')
  const keys = new Set(members.map((member) => member.split('=', 1)[0]))
  const isGood =
    members.length <= TRACESTATE_MEMBERS_MAX &&
    keys.size === members.length &&
    members.every((member) => TRACESTATE_MEMBER.test(member))
  return isGood ? members.join(',') : ''
}
