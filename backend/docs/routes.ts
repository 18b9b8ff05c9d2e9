/**
 * The documentation, outside /api/v1 so that the prefix keeps exactly the operations of the API. Nothing
 * comes from elsewhere, and nothing in a page is a script or a style, which the policy below holds it to.
 */
import type { Request, ResponseObject, ResponseToolkit, ServerRoute } from '@hapi/hapi'
import type { Asset } from './assets.ts'
import { renderedDocs } from './rendered-docs.ts'

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  // For the empty icon.
  'img-src data:',
  "form-action 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

const CACHED_FOR_EVER = 'public, max-age=31536000, immutable'

export function docsRoutes(baseUrl: string): readonly ServerRoute[] {
  return [
    route('/docs/', async (_, h) => h.redirect('/docs').permanent()),
    ...['/docs', '/docs/{path*}'].map((path) =>
      route(path, async (request, h) => {
        const { files, missing } = await renderedDocs(baseUrl)
        const file = files.get(request.path)
        if (file !== undefined) return respond(file, h, request)
        return h.response(missing).type('text/html; charset=utf-8').code(404)
      }),
    ),
  ]
}

/** Pages are revalidated at every visit. */
function respond(
  { type, content, zipped, version, isImmutable }: Asset,
  h: ResponseToolkit,
  { headers }: Request,
): ResponseObject {
  const takesGzip = /\bgzip\b(?!\s*;\s*q=0)/i.test(String(headers['accept-encoding'] ?? ''))
  const { buffer, byteOffset, byteLength } = takesGzip ? zipped : content
  const response = h
    .response(Buffer.from(buffer, byteOffset, byteLength))
    .type(type)
    // hapi derives another for what is compressed.
    .etag(version)
    .header('vary', 'accept-encoding')
    .header('cache-control', isImmutable ? CACHED_FOR_EVER : 'no-cache')
  return takesGzip ? response.header('content-encoding', 'gzip') : response
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
