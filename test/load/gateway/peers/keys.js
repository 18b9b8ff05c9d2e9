/** What the Node peers share: who a bearer key is, asked once and remembered for a minute. */
import { LRUCache } from 'lru-cache'

export const ROUTES = [
  { method: 'GET', pattern: /^\/api\/v1\/debtors(?:\/[^/]+)?$/, scope: 'debtors:read' },
  { method: 'POST', pattern: /^\/api\/v1\/debtors$/, scope: 'debtors:write' },
  { method: 'GET', pattern: /^\/api\/v1\/invoices(?:\/[^/]+)?$/, scope: 'invoices:read' },
  { method: 'POST', pattern: /^\/api\/v1\/invoices$/, scope: 'invoices:write' },
  { method: 'GET', pattern: /^\/api\/v1\/payments$/, scope: 'payments:read' },
  { method: 'POST', pattern: /^\/api\/v1\/payments$/, scope: 'payments:write' },
  { method: 'GET', pattern: /^\/api\/v1\/messages$/, scope: 'messages:read' },
]

const remembered = new LRUCache({
  max: 200_000,
  ttl: 60_000,
  fetchMethod: async (token) => {
    const answer = await fetch(process.env.LOOK_UP_URL, { method: 'POST', body: token })
    const { found, ...key } = await answer.json()
    return found ? { ...key, scopes: new Set(key.scopes) } : undefined
  },
})

const BEARER = /^Bearer (\S+)$/i

/** Undefined: there is no such key. */
export function findKey(authorization = '') {
  const token = BEARER.exec(authorization)?.[1]
  if (token === undefined) return undefined
  return remembered.get(token) ?? remembered.fetch(token)
}

export function scopeOf(method, url) {
  const query = url.indexOf('?')
  const path = query < 0 ? url : url.slice(0, query)
  return ROUTES.find((route) => route.method === method && route.pattern.test(path))?.scope
}
