/** The TLS certificate: it is validated before it is used, and operators are warned before it expires. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { SettingsError } from '../../shared/process/settings.ts'

/** How long before its end operators are warned. */
const EXPIRES_SOON_MS = 7 * 24 * 3_600_000

/** In PEM form: the certificate with its chain, and its private key. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
}

export interface Certificate extends TlsFiles {
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
  /** The host names that it is for. */
  readonly names: string
}

/** Takes `TLS_CERT` and `TLS_KEY` in PEM form; returns undefined without both. Throws `SettingsError`. */
export function readCertificate(
  cert: string | undefined,
  key: string | undefined,
): Certificate | undefined {
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined) throw new SettingsError(['TLS_KEY is set, and TLS_CERT is not'])
  if (key === undefined) throw new SettingsError(['TLS_CERT is set, and TLS_KEY is not'])
  const own = read('TLS_CERT', () => new X509Certificate(cert))
  const privateKey = read('TLS_KEY', () => createPrivateKey(key))
  if (!own.checkPrivateKey(privateKey)) {
    throw new SettingsError(['TLS_KEY is not the key of the first certificate of TLS_CERT'])
  }
  // The TLS library rejects more than the checks above: the chain, or keys that are too short.
  read('TLS_CERT', () => createSecureContext({ cert, key }))
  const names = own.subjectAltName ?? own.subject
  return { cert, key, expiresAt: Date.parse(own.validTo), names }
}

function read<T>(name: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new SettingsError([`${name} cannot be used: ${reason}`])
  }
}

/** A warning for operators if the certificate has expired or will soon; else undefined. */
export function expiryWarning({ expiresAt }: Certificate, now: number): string | undefined {
  if (expiresAt > now + EXPIRES_SOON_MS) return undefined
  const end = new Date(expiresAt).toISOString()
  return `the TLS certificate ${expiresAt > now ? 'ends' : 'ended'} on ${end}`
}
