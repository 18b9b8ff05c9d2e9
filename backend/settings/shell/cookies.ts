/**
 * The cookies of Settings. With https their names begin with `__Host-`, so that neither a subdomain nor
 * an unencrypted connection can set them. Without https only a browser on this machine can log in.
 */

export interface Cookies {
  readonly session: Cookie
  /** The secret from which the CSRF token of a form before login is derived. */
  readonly login: Cookie
  /** Recognizes a browser in which the user has logged in before; gives no access. */
  readonly browser: Cookie
}

/** The longest time that browsers keep a cookie. */
const BROWSER_SECONDS = 400 * 86_400

export interface Cookie {
  /**
   * Undefined if the cookie was not sent, or was sent twice: then an attacker may have planted one of them.
   */
  read(header: string | undefined): string | undefined
  /** Returns the header that sets the cookie; the server enforces the time limits of a session. */
  set(value: string): string
  readonly clear: string
}

/** Undefined for plain http to another machine, over which a password must not be sent. */
export function cookiesFor(baseUrl: string): Cookies | undefined {
  const { protocol } = new URL(baseUrl)
  const isSecure = protocol === 'https:'
  if (!isSecure && !isLoopback(baseUrl)) return undefined
  return {
    session: cookie('session', isSecure),
    login: cookie('login', isSecure),
    browser: cookie('browser', isSecure, BROWSER_SECONDS),
  }
}

export function isLoopback(url: string): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(new URL(url).hostname)
}

/** Without `maxAgeSeconds` the cookie ends with the browser. */
function cookie(plainName: string, isSecure: boolean, maxAgeSeconds?: number): Cookie {
  const name = isSecure ? `__Host-${plainName}` : plainName
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`
  return {
    read(header = '') {
      const values = header
        .split(';')
        .map((pair) => pair.trim())
        .filter((pair) => pair.startsWith(`${name}=`))
        .map((pair) => pair.slice(name.length + 1))
      return values.length === 1 ? values[0] : undefined
    },
    set: (value) =>
      `${name}=${value}; ${attributes}${maxAgeSeconds === undefined ? '' : `; Max-Age=${maxAgeSeconds}`}`,
    clear: `${name}=; ${attributes}; Max-Age=0`,
  }
}
