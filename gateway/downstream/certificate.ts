/** Validates the TLS certificate before it is used. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { SettingsError } from '../../shared/process/settings.ts'

const EXPIRES_SOON_MS = 7 * 24 * 3_600_000

/** In PEM form. `cert` includes its chain. */
export interface TlsKeyPair {
  readonly cert: string
  readonly key: string
}

export interface Certificate extends TlsKeyPair {
  /** Milliseconds since the epoch. */
  readonly validFrom: number
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
  /** The subject alternative names, such as host names; the subject if the certificate has none. */
  readonly names: string
}

/**
 * Validates `TLS_CERT` and `TLS_KEY`, in PEM form. Returns undefined if neither is set. Throws `SettingsError` if only
 * one of them is set, or if they cannot be used.
 */
export function readCertificate(
  cert: string | undefined,
  key: string | undefined,
): Certificate | undefined {
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined) throw new SettingsError(['TLS_KEY is set, but TLS_CERT is not'])
  if (key === undefined) throw new SettingsError(['TLS_CERT is set, but TLS_KEY is not'])
  if (key.includes('ENCRYPTED')) {
    throw new SettingsError([
      'TLS_KEY needs a passphrase. Remove it: openssl pkey -in KEY -out NEW_KEY',
    ])
  }
  const leaf = requireUsable('TLS_CERT', () => new X509Certificate(cert))
  const privateKey = requireUsable('TLS_KEY', () => createPrivateKey(key))
  if (!leaf.checkPrivateKey(privateKey)) {
    throw new SettingsError(['TLS_KEY is not the private key of the first certificate in TLS_CERT'])
  }
  // The TLS library also rejects a malformed certificate in the chain, or a key that is too short.
  requireUsable('TLS_CERT', () => createSecureContext({ cert, key }))
  const names = leaf.subjectAltName ?? leaf.subject
  const [validFrom, expiresAt] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)]
  return { cert, key, validFrom, expiresAt, names }
}

/** Converts an error of `work` into a `SettingsError` about the setting. */
function requireUsable<T>(setting: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new SettingsError([`${setting} cannot be used: ${reason}`])
  }
}

/** Returns a warning for operators if the certificate has expired, will soon expire, or is not valid yet. */
export function validityWarning(
  { validFrom, expiresAt }: Pick<Certificate, 'validFrom' | 'expiresAt'>,
  now: number,
): string | undefined {
  if (validFrom > now) {
    return `the TLS certificate is not valid before ${new Date(validFrom).toISOString()}`
  }
  if (expiresAt > now + EXPIRES_SOON_MS) return undefined
  const end = new Date(expiresAt).toISOString()
  return `the TLS certificate ${expiresAt > now ? 'expires' : 'expired'} on ${end}`
}
