/** A gateway that consists of node:http and http-proxy-3, and counts calls with a Redis script. */
import { readFileSync } from 'node:fs'
import { Agent, createServer } from 'node:http'
import { createProxyServer } from 'http-proxy-3'
import { Redis } from 'ioredis'
import { cachedKey, findKey, scopeOf } from './keys.js'

const redis = new Redis(process.env.REDIS_URL, { enableAutoPipelining: true })
redis.defineCommand('countCall', {
  numberOfKeys: 1,
  lua: readFileSync(new URL('count.lua', import.meta.url), 'utf8'),
})
const proxy = createProxyServer({
  target: process.env.UPSTREAM_URL,
  agent: new Agent({ keepAlive: true, maxSockets: 128 }),
})
proxy.on('error', (_error, _request, response) => response.writeHead(502).end())

function reject(response, status, code) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ code }))
}

async function serve(request, response) {
  const { authorization } = request.headers
  const key = cachedKey(authorization) ?? (await findKey(authorization))
  if (key === undefined) return reject(response, 401, 'invalid_api_key')
  const [count, restMs] = await redis.countCall(`http-proxy-3:${key.key_id}`, 3_600_000)
  response.setHeader('x-ratelimit-limit', key.rate_limit)
  response.setHeader('x-ratelimit-remaining', Math.max(0, key.rate_limit - count))
  response.setHeader('x-ratelimit-reset', Math.ceil((Date.now() + restMs) / 1000))
  if (count > key.rate_limit) return reject(response, 429, 'rate_limit_exceeded')
  const scope = scopeOf(request.method, request.url)
  if (scope === undefined) return reject(response, 404, 'route_not_found')
  if (!key.scopes.has(scope)) return reject(response, 403, 'insufficient_scope')
  delete request.headers.authorization
  request.headers['x-principal'] = key.principal
  proxy.web(request, response)
}

createServer((request, response) => {
  serve(request, response).catch(() => reject(response, 503, 'service_unavailable'))
}).listen(Number(process.env.PORT), '127.0.0.1')
