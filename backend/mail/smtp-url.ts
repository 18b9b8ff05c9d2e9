/** Parses the address of the mail server: `smtp://user:password@host:587`, or `smtps://` for implicit TLS. */
import { domainToASCII } from 'node:url'
import { hasPortZero, MUST_NOT_HAVE_PORT_ZERO } from '../../shared/process/settings.ts'

export interface SmtpAddress {
  readonly host: string
  readonly port: number
  /**
   * Whether TLS is implicit. Otherwise STARTTLS is used if the server offers it, and required if there is a login and
   * `isLocal` is false.
   */
  readonly isTlsImplicit: boolean
  readonly login: { readonly user: string; readonly pass: string } | undefined
  /** Whether the host is `localhost` or a loopback address. The certificate of the server is then not verified. */
  readonly isLocal: boolean
}

/**
 * Throws an `Error` with a message that continues "SMTP_URL …". The message contains no part of the URL, because
 * the URL may contain a password.
 */
export function parseSmtpUrl(text: string): SmtpAddress {
  const url = URL.parse(text)
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.hostname === '') {
    throw new Error(
      'must be smtp://host:port or smtps://user:password@host:port, with special characters encoded as %XX, such as / as %2F',
    )
  }
  if (!/^\/?$/.test(url.pathname) || url.search !== '' || url.hash !== '') {
    throw new Error('must end after the host and port')
  }
  if ((url.username === '') !== (url.password === '')) {
    throw new Error('must have both a user and a password, or neither')
  }
  if (hasPortZero(url)) throw new Error(MUST_NOT_HAVE_PORT_ZERO)
  const isTlsImplicit = url.protocol === 'smtps:'
  const host = hostOf(url)
  return {
    host,
    port: url.port === '' ? (isTlsImplicit ? 465 : 587) : Number(url.port),
    isTlsImplicit,
    login:
      url.username === '' ? undefined : { user: decode(url.username), pass: decode(url.password) },
    isLocal: /^(?:localhost|127(?:\.\d+){3}|::1)$/.test(host),
  }
}

/**
 * Returns the host in ASCII. The class `URL` converts a host such as `mail.müller.de` only in web addresses; in the
 * addresses of mail servers, it encodes `ü` as %XX.
 */
function hostOf({ hostname }: URL): string {
  if (hostname.startsWith('[')) return hostname.slice(1, -1)
  const host = domainToASCII(decode(hostname))
  if (host === '') throw new Error('has a host that is not a valid name')
  return host
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new Error('has a % that encodes no character: write %25 for a %')
  }
}
