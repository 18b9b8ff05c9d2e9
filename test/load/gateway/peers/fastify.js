/**
 * A gateway that consists of Fastify's own plugins: @fastify/rate-limit with Redis, then @fastify/http-proxy. Its hooks
 * use callbacks, so that a call with a cached key creates no promise.
 */

import httpProxy from '@fastify/http-proxy'
import rateLimit from '@fastify/rate-limit'
import createFastify from 'fastify'
import { Redis } from 'ioredis'
import { cachedKey, findKey, scopeOf } from './keys.js'

const app = createFastify({ logger: false })
app.decorateRequest('key', null)
app.addHook('onRequest', (request, reply, done) => {
  const { authorization } = request.headers
  const admit = (key) => {
    if (key === undefined) return reply.code(401).send({ code: 'invalid_api_key' })
    request.key = key
    done()
  }
  const known = cachedKey(authorization)
  if (known !== undefined) return admit(known)
  findKey(authorization).then(admit, done)
})
await app.register(rateLimit, {
  redis: new Redis(process.env.REDIS_URL, {
    enableAutoPipelining: true,
    maxRetriesPerRequest: 1,
    connectTimeout: 500,
  }),
  nameSpace: 'fastify:',
  timeWindow: 3_600_000,
  max: (request) => request.key.rate_limit,
  keyGenerator: (request) => request.key.key_id,
})
await app.register(httpProxy, {
  upstream: process.env.UPSTREAM_URL,
  undici: { connections: 128, pipelining: 1, keepAliveTimeout: 60_000 },
  disableRequestLogging: true,
  preHandler: (request, reply, done) => {
    const scope = scopeOf(request.method, request.url)
    if (scope === undefined) return reply.code(404).send({ code: 'route_not_found' })
    if (!request.key.scopes.has(scope)) return reply.code(403).send({ code: 'insufficient_scope' })
    done()
  },
  replyOptions: {
    // These headers are a copy, so they can be changed.
    rewriteRequestHeaders: ({ key }, headers) => {
      headers.authorization = undefined
      headers['x-principal'] = key.principal
      return headers
    },
  },
})
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) })
