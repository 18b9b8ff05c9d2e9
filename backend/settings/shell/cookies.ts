/**
 * The cookies of Settings. With https their names begin with `__Host-`, so that neither a subdomain nor
 * an unencrypted connection can set them. Without https, there are cookies, and thus logins, only if the base URL is a
 * loopback address.
 */

export interface Cookies {
  readonly session: Cookie
  /**
   * Contains a secret. The CSRF tokens of forms that are sent before login, e.g. the login form, are derived from it.
   */
  readonly login: Cookie
  /** Identifies a browser in which the user has logged in before. This cookie gives no access. */
  readonly browser: Cookie
  /** Contains the page that was requested without a session, so that the login can lead to it. */
  readonly page: Cookie
}

/**
 * Browsers ignore a cookie whose name and value have more than 4096 bytes together. They would keep the cookie that
 * they have, and the login would lead to a page that was requested earlier.
 */
const PAGE_LENGTH_MAX = 4000

/** Returns the value of the cookie `page` for the path and query of a page. It is empty if it would be too long. */
export function pageCookieValue(url: string): string {
  const value = encodeURIComponent(url)
  return value.length > PAGE_LENGTH_MAX ? '' : value
}

/**
 * Returns the path and query in a value of the cookie `page`; undefined if they are not of a page of Settings, so that
 * a login never leads to another site.
 */
export function pageInCookie(value: string | undefined): string | undefined {
  try {
    const url = decodeURIComponent(value ?? '')
    return /^\/settings(?:[/?][\x21-\x7e]*)?$/.test(url) ? url : undefined
  } catch {
    return undefined
  }
}

/** 400 days, the longest time for which browsers keep a cookie. */
const BROWSER_COOKIE_SECONDS = 400 * 86_400

export interface Cookie {
  /**
   * Returns undefined if the cookie was not sent, or was sent twice: an attacker may have planted one of the two.
   */
  read(header: string | undefined): string | undefined
  /**
   * Returns a `Set-Cookie` value. Only the cookie `browser` has a time limit. The server limits how long a session
   * lasts.
   */
  set(value: string): string
  /** The `Set-Cookie` value that deletes the cookie. */
  readonly clear: string
}

/**
 * Returns undefined if the base URL has plain http and is not a loopback address: a password would then cross the
 * network unencrypted.
 */
export function cookiesFor(baseUrl: string): Cookies | undefined {
  const { protocol } = new URL(baseUrl)
  const isSecure = protocol === 'https:'
  if (!isSecure && !isLoopback(baseUrl)) return undefined
  return {
    session: cookie('session', isSecure),
    login: cookie('login', isSecure),
    browser: cookie('browser', isSecure, BROWSER_COOKIE_SECONDS),
    page: cookie('page', isSecure),
  }
}

export function isLoopback(url: string): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(new URL(url).hostname)
}

/** Without `maxAgeSeconds`, the cookie lasts until the browser is closed. */
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
