/**
 * Two kinds of signatures between gateway and backend, both with `GATEWAY_SECRET`:
 *
 * - the principal, "key K at revision R of account A at revision S calls": minted by the backend at
 *   a look-up, forwarded by the gateway with each call, valid for a minute;
 * - the signature of every other request a gateway sends (look-ups, readiness, pages).
 *
 * A secret may be a list: the first signs, all verify, so that it can be rotated without an outage.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto'

/** Headers between gateway and backend. The gateway drops every `x-receivables-*` of a client. */
export const PRINCIPAL_HEADER = 'x-receivables-principal'
export const SIGNATURE_HEADER = 'x-receivables-signature'
export const CLIENT_ADDRESS_HEADER = 'x-receivables-client-address'
/** On a response with status 401: the reason why the backend rejects the principal. */
export const REFUSAL_HEADER = 'x-receivables-refusal'

/**
 * `key_revoked`, `key_expired`: final. `revision_changed`: look up again, then repeat the call.
 * `principal_expired`, `principal_invalid`: look up once more; if that does not help, the two
 * processes disagree on clock or secret.
 */
export type Refusal =
  | 'key_revoked'
  | 'key_expired'
  | 'revision_changed'
  | 'principal_expired'
  | 'principal_invalid'

export const PRINCIPAL_LIFETIME_MS = 60_000
/** How far the clocks of a gateway and a backend may differ, for signatures of requests. */
const SIGNATURE_TOLERANCE_MS = 60_000

export interface Principal {
  readonly keyId: string
  /** Raised by a revocation, an expiry, and a change of the expiry or the allowed addresses. */
  readonly keyRevision: number
  readonly accountId: string
  /** Raised by a narrowing and by a change of the account's status. */
  readonly accountRevision: number
}

/** `expiresAt` in milliseconds since the epoch. */
export function signPrincipal(
  principal: Principal,
  expiresAt: number,
  secrets: readonly string[],
): string {
  const claims = [
    principal.keyId,
    principal.keyRevision,
    principal.accountId,
    principal.accountRevision,
    expiresAt,
  ].join('.')
  return `${claims}.${mac('principal', claims, firstOf(secrets))}`
}

/** What a gateway may say of a call until `expiresAt`, in milliseconds since the epoch. */
export interface SignedPrincipal {
  readonly principal: Principal
  readonly expiresAt: number
}

/** Undefined where it is not signed. */
export function verifyPrincipal(
  text: string,
  secrets: readonly string[],
): SignedPrincipal | undefined {
  const at = text.lastIndexOf('.')
  const claims = text.slice(0, Math.max(at, 0))
  if (!isSigned('principal', claims, text.slice(at + 1), secrets)) return undefined
  const [keyId = '', keyRevision, accountId = '', accountRevision, expiresAt] = claims.split('.')
  const principal: Principal = {
    keyId,
    keyRevision: Number(keyRevision),
    accountId,
    accountRevision: Number(accountRevision),
  }
  return { principal, expiresAt: Number(expiresAt) }
}

export interface SignedRequest {
  readonly method: string
  /** Path and query as sent. */
  readonly path: string
  readonly body: Buffer | string
}

/** The value of the signature header: the time of signing and the MAC over it and the request. */
export function signRequest(
  request: SignedRequest,
  now: number,
  secrets: readonly string[],
): string {
  return `${now}.${mac('request', requestClaims(request, String(now)), firstOf(secrets))}`
}

export function isRequestSigned(
  request: SignedRequest,
  header: string | undefined,
  now: number,
  secrets: readonly string[],
): boolean {
  const [at = '', signature = ''] = header?.split('.') ?? []
  const recent = Math.abs(now - Number(at)) <= SIGNATURE_TOLERANCE_MS
  return recent && isSigned('request', requestClaims(request, at), signature, secrets)
}

function requestClaims({ method, path, body }: SignedRequest, at: string): string {
  return [at, method, path, hash('sha256', body, 'base64url')].join('\n')
}

function isSigned(use: string, text: string, signature: string, secrets: readonly string[]) {
  const given = Buffer.from(signature)
  return secrets.some((secret) => {
    const expected = Buffer.from(mac(use, text, secret))
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}

/** `use` keeps the two kinds of signature apart: neither can pose as the other. */
function mac(use: string, text: string, secret: string): string {
  return createHmac('sha256', secret).update(`${use}\n${text}`).digest('base64url')
}

function firstOf(secrets: readonly string[]): string {
  const [first] = secrets
  if (first === undefined) throw new TypeError('GATEWAY_SECRET is empty')
  return first
}
