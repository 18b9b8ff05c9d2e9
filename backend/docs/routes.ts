import { setTimeout as delay } from 'node:timers/promises'
import type { Request, ResponseObject, ResponseToolkit, ServerRoute } from '@hapi/hapi'
import type { Asset } from './assets.ts'
import type { RenderedDocs } from './render-docs.ts'

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  // The pages have an empty favicon in a data URL, so that browsers do not request /favicon.ico.
  'img-src data:',
  "form-action 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

const CACHED_FOREVER = 'public, max-age=31536000, immutable'

/**
 * How long a request waits for rendering: less than the default of GATEWAY_UPSTREAM_TIMEOUT_MS, because the client
 * would otherwise receive a 504 from the gateway.
 */
const RENDERING_MS_MAX = 4_000

const RETRY_AFTER_SECONDS = '3'

const RENDERING_PAGE = `<!doctype html>
<html lang="en">
<title>Documentation</title>
<h1>The documentation is being prepared</h1>
<p>This takes a few seconds after the service has started. The page reloads automatically.</p>
`

/**
 * `rendered` is called for each request. If its promise is still pending after `waitMsMax`, the response is
 * 503.
 */
export function docsRoutes(
  rendered: () => Promise<RenderedDocs>,
  waitMsMax = RENDERING_MS_MAX,
): readonly ServerRoute[] {
  return [
    route('/docs/', async (_, h) => h.redirect('/docs').permanent()),
    ...['/docs', '/docs/{path*}'].map((path) =>
      route(path, async (request, h) => {
        const docs = await withinMs(rendered(), waitMsMax)
        if (docs === undefined) return respondNotReady(h)
        const file = docs.files.get(request.path)
        if (file !== undefined) return respond(file, h, request)
        return h.response(docs.notFoundPage).type('text/html; charset=utf-8').code(404)
      }),
    ),
  ]
}

/** Resolves with undefined if `work` takes longer than `ms`. */
async function withinMs<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  const ended = new AbortController()
  const tooLate = delay(ms, undefined, { signal: ended.signal }).catch(() => undefined)
  try {
    return await Promise.race([work, tooLate])
  } finally {
    ended.abort()
  }
}

/** Browsers ignore `Retry-After`, but follow `Refresh`. */
function respondNotReady(h: ResponseToolkit): ResponseObject {
  return h
    .response(RENDERING_PAGE)
    .type('text/html; charset=utf-8')
    .code(503)
    .header('cache-control', 'no-store')
    .header('retry-after', RETRY_AFTER_SECONDS)
    .header('refresh', RETRY_AFTER_SECONDS)
}

/** Browsers cache immutable files forever. They cache all others too, but must revalidate them before each use. */
function respond(
  { type, content, zipped, version, isImmutable }: Asset,
  h: ResponseToolkit,
  { headers, info }: Request,
): ResponseObject {
  const prefersGzip = info.acceptEncoding === 'gzip'
  const ifNoneMatch = headers['if-none-match']
  if (typeof ifNoneMatch === 'string')
    headers['if-none-match'] = forStrongComparison(ifNoneMatch, version)
  const { buffer, byteOffset, byteLength } = prefersGzip ? zipped : content
  const response = h
    .response(Buffer.from(buffer, byteOffset, byteLength))
    .type(type)
    // hapi appends the encoding to the ETag of a compressed response.
    .etag(version)
    .header('vary', 'accept-encoding')
    .header('cache-control', isImmutable ? CACHED_FOREVER : 'no-cache')
  return prefersGzip ? response.header('content-encoding', 'gzip') : response
}

/**
 * Rewrites `If-None-Match` so that hapi's strong comparison of tags has the same result as the weak comparison that RFC
 * 9110, section 13.1.2, requires: removes each `W/`, and replaces `*`, which hapi does not know, with the current tag.
 */
function forStrongComparison(ifNoneMatch: string, version: string): string {
  if (ifNoneMatch.trim() === '*') return `"${version}"`
  return ifNoneMatch.replaceAll(/(?<=^|[\s,])W\/(?=")/g, '')
}

function route(
  path: string,
  respondTo: (request: Request, h: ResponseToolkit) => Promise<ResponseObject>,
): ServerRoute {
  return {
    method: 'GET',
    path,
    async handler(request, h) {
      const response = await respondTo(request, h)
      return response.header('content-security-policy', CONTENT_SECURITY_POLICY)
    },
  }
}
