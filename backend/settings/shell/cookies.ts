/**
 * The two cookies of Settings. Over https their names begin with `__Host-`, so that no subdomain and
 * no plain connection can set them; without https only this machine itself may log in.
 */

export interface Cookies {
  readonly session: Cookie
  /** Holds what the token of a form before login is derived from. */
  readonly login: Cookie
}

export interface Cookie {
  /** Undefined where it was not sent, or twice: then one of the two was planted. */
  read(header: string | undefined): string | undefined
  /** The header that sets it until the browser closes; the session's own limits are the server's. */
  set(value: string): string
  readonly clear: string
}

/** Undefined where a password must not travel: plain http to another machine. */
export function cookiesFor(baseUrl: string): Cookies | undefined {
  const { protocol } = new URL(baseUrl)
  const isSecure = protocol === 'https:'
  if (!isSecure && !isLoopback(baseUrl)) return undefined
  return { session: cookie('session', isSecure), login: cookie('login', isSecure) }
}

export function isLoopback(url: string): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(new URL(url).hostname)
}

function cookie(plainName: string, isSecure: boolean): Cookie {
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
    set: (value) => `${name}=${value}; ${attributes}`,
    clear: `${name}=; ${attributes}; Max-Age=0`,
  }
}
