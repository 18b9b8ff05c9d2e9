/** Looks up keys for the peers that run on Node. A key is cached for a minute. */
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

const cached = new LRUCache({
  max: 200_000,
  ttl: 60_000,
  fetchMethod: async (token) => {
    if (token === '') return undefined
    const response = await fetch(process.env.LOOK_UP_URL, { method: 'POST', body: token })
    const { found, ...key } = await response.json()
    return found ? { ...key, scopes: new Set(key.scopes) } : undefined
  },
})

const BEARER = /^Bearer (\S+)$/i

/** Returns the key if it is cached. */
export function cachedKey(authorization = '') {
  return cached.get(tokenOf(authorization))
}

/** Resolves with the key; undefined if there is none. */
export async function findKey(authorization = '') {
  return cached.fetch(tokenOf(authorization))
}

function tokenOf(authorization) {
  return BEARER.exec(authorization)?.[1] ?? ''
}

export function scopeOf(method, url) {
  const query = url.indexOf('?')
  const path = query < 0 ? url : url.slice(0, query)
  return ROUTES.find((route) => route.method === method && route.pattern.test(path))?.scope
}
