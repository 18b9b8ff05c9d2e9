/**
 * Two kinds of signatures between gateway and backend, both with `GATEWAY_SECRET`:
 *
 * - the principal, which identifies the caller: key K at revision R, of account A at revision S. A backend signs it at
 *   a look-up. The gateway forwards it with each call of the key, for up to a minute. The principal is not bound to a
 *   request (docs/decisions/0011-principal-not-bound.md);
 * - the signature of each request without a principal (look-ups, readiness probes, usage reports, pages).
 *   It covers the method, the path and the body.
 *
 * `GATEWAY_SECRET` is a list of secrets, so that they can be rotated without an outage: the first secret signs, and
 * signatures with any of the secrets are accepted.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto'

/** Headers between gateway and backend. The gateway forwards no `x-receivables-*` header of a client. */
export const PRINCIPAL_HEADER = 'x-receivables-principal'
export const SIGNATURE_HEADER = 'x-receivables-signature'
export const CLIENT_ADDRESS_HEADER = 'x-receivables-client-address'
/**
 * The header of the response (401) to a call whose principal the backend rejects. Its value is a `PrincipalRejection`.
 */
export const PRINCIPAL_REJECTION_HEADER = 'x-receivables-refusal'

/**
 * Why a backend rejects a principal. After `key_expired`, the gateway rejects the call. After any other reason, it
 * looks the key up again, and repeats the call if the key is valid. If `principal_expired` or `principal_invalid`
 * recur, the clocks or the secrets of the two processes differ.
 */
export type PrincipalRejection =
  | 'key_revoked'
  | 'key_expired'
  | 'revision_changed'
  | 'principal_expired'
  | 'principal_invalid'

export const PRINCIPAL_LIFETIME_MS = 60_000
/** The maximum age of a request's signature, and how far the clocks of two gateways or backends may differ. */
export const SIGNATURE_TOLERANCE_MS = 60_000

export interface Principal {
  readonly keyId: string
  /** Increased when the key is revoked or rotated, when it expires, and when its expiry or allowed addresses change. */
  readonly keyRevision: number
  readonly accountId: string
  /** Increased when the status of the account, or the list of scopes that the account allows, is changed. */
  readonly accountRevision: number
}

/** `expiresAt` is in milliseconds since the epoch. */
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

/** A principal that is valid until `expiresAt`, in milliseconds since the epoch. */
export interface SignedPrincipal {
  readonly principal: Principal
  readonly expiresAt: number
  /** The secret with which the principal was signed. */
  readonly secret: string
}

/** Returns undefined if the principal has no valid signature. Does not check `expiresAt`. */
export function verifyPrincipal(
  text: string,
  secrets: readonly string[],
): SignedPrincipal | undefined {
  const lastDot = text.lastIndexOf('.')
  const claims = text.slice(0, Math.max(lastDot, 0))
  const secret = findSecret('principal', claims, text.slice(lastDot + 1), secrets)
  if (secret === undefined) return undefined
  const [keyId = '', keyRevision, accountId = '', accountRevision, expiresAt] = claims.split('.')
  const principal: Principal = {
    keyId,
    keyRevision: Number(keyRevision),
    accountId,
    accountRevision: Number(accountRevision),
  }
  return { principal, expiresAt: Number(expiresAt), secret }
}

export interface SignedRequest {
  readonly method: string
  /** The path and the query, as they are sent. */
  readonly path: string
  readonly body: Buffer | string
}

/**
 * Returns the value of the signature header: the time of signing, and the MAC of this time and the request.
 */
export function signRequest(
  request: SignedRequest,
  now: number,
  secrets: readonly string[],
): string {
  return `${now}.${mac('request', requestClaims(request, String(now)), firstOf(secrets))}`
}

/** Whether the signature in `header` is valid, and was made at most `SIGNATURE_TOLERANCE_MS` before or after `now`. */
export function isRequestSigned(
  request: SignedRequest,
  header: string | undefined,
  now: number,
  secrets: readonly string[],
): boolean {
  const [signedAt = '', signature = ''] = header?.split('.') ?? []
  const isRecent = Math.abs(now - Number(signedAt)) <= SIGNATURE_TOLERANCE_MS
  if (!isRecent) return false
  return findSecret('request', requestClaims(request, signedAt), signature, secrets) !== undefined
}

function requestClaims({ method, path, body }: SignedRequest, signedAt: string): string {
  return [signedAt, method, path, hash('sha256', body, 'base64url')].join('\n')
}

/** Returns the secret with which the text was signed; undefined if the signature is invalid. */
function findSecret(
  kind: SignatureKind,
  text: string,
  signature: string,
  secrets: readonly string[],
): string | undefined {
  const given = Buffer.from(signature)
  return secrets.find((secret) => {
    const expected = Buffer.from(mac(kind, text, secret))
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}

type SignatureKind = 'principal' | 'request'

/** `kind` is part of the signed text, so that a signature of one kind is invalid for the other kind. */
function mac(kind: SignatureKind, text: string, secret: string): string {
  return createHmac('sha256', secret).update(`${kind}\n${text}`).digest('base64url')
}

function firstOf(secrets: readonly string[]): string {
  const [first] = secrets
  if (first === undefined) throw new TypeError('GATEWAY_SECRET is empty')
  return first
}
