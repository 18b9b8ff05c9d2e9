/**
 * The CSRF token of a browser, derived from a secret in one of its cookies: the session token or, before the login, the
 * login cookie. Only responses to this browser contain the token, so another site cannot make the browser send a valid
 * form.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

export function csrfTokenOf(cookieSecret: string): string {
  return createHmac('sha256', cookieSecret).update('csrf').digest('base64url')
}

export function isCsrfToken(given: string, cookieSecret: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(csrfTokenOf(cookieSecret))]
  return a.length === b.length && timingSafeEqual(a, b)
}
