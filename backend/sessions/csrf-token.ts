/** The CSRF token of a session, which only the pages of this session contain. */
import { createHmac, timingSafeEqual } from 'node:crypto'

export function csrfTokenOf(sessionToken: string): string {
  return createHmac('sha256', sessionToken).update('csrf').digest('base64url')
}

export function isCsrfToken(given: string, sessionToken: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(csrfTokenOf(sessionToken))]
  return a.length === b.length && timingSafeEqual(a, b)
}
