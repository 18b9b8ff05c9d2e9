/**
 * The documentation, outside /api/v1 so that the prefix keeps exactly the operations of the API. All
 * of it is made once, at the start: what cannot be shown stops the start. Nothing comes from
 * elsewhere, and nothing in a page is a script or a style, which the policy below holds it to.
 */
import { readFileSync } from 'node:fs'
import type { Request, ResponseObject, ServerRoute } from '@hapi/hapi'
import { readContractDocument } from '../../shared/contract/contract.ts'
import { readStylesheet } from '../html/stylesheet.ts'
import { type Asset, createAsset, createFile } from './assets.ts'
import { renderCollection } from './collection.ts'
import { readDocument } from './document.ts'
import { renderLayout, renderMissing, type Site } from './layout.ts'
import { docsPages } from './pages.ts'
import { searchIndex } from './search.ts'
import { renderTypeScript } from './typescript.ts'

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  // The icon, which is none.
  'img-src data:',
  "form-action 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

const ASSETS = new URL('./assets/', import.meta.url)

/** Of its package, as a module. */
const MINISEARCH = new URL(import.meta.resolve('minisearch'))

/** Programs that a reader may copy. */
const EXAMPLES = new URL('../../deploy/examples/', import.meta.url)
const EXAMPLE_FILES = ['README.md', 'client.ts', 'post-payments.ts', 'sync.ts']

/** What the document is written for; it is served for the address that it is served from. */
const WRITTEN_BASE_URL = 'http://localhost:8080'
const EXAMPLES_BASE_URL = 'http://127.0.0.1:8080'

export function docsRoutes(baseUrl: string): readonly ServerRoute[] {
  const routes = rendered.get(baseUrl) ?? renderRoutes(baseUrl)
  rendered.set(baseUrl, routes)
  return routes
}

/** Kept by base address: a process that creates several backends, as tests do, renders the pages once. */
const rendered = new Map<string, readonly ServerRoute[]>()

function renderRoutes(baseUrl: string): readonly ServerRoute[] {
  const written = readContractDocument()
  const yaml = written.yaml.replaceAll(WRITTEN_BASE_URL, baseUrl)
  const json = written.json.replaceAll(WRITTEN_BASE_URL, baseUrl)
  const document = readDocument(json)
  const pages = docsPages(document, baseUrl)
  const site: Site = {
    pages,
    stylesheet: createAsset(
      'docs.css',
      'text/css; charset=utf-8',
      readStylesheet(new URL('docs.css', ASSETS)),
    ),
    script: createScript('docs.js', new URL('docs.js', ASSETS)),
    search: {
      index: createAsset(
        'search.json',
        'application/json; charset=utf-8',
        Buffer.from(searchIndex(pages)),
      ),
      script: createScript('search.js', new URL('search.js', ASSETS)),
      library: createScript('minisearch.js', MINISEARCH),
    },
  }
  const missing = renderMissing(site)
  return [
    serve('/docs/openapi.json', 'application/json; charset=utf-8', json),
    serve('/docs/openapi.yaml', 'application/yaml; charset=utf-8', yaml),
    serve(
      '/docs/receivables.postman_collection.json',
      'application/json; charset=utf-8',
      renderCollection(document, baseUrl),
    ),
    // Shown, not run, where a browser is asked for it.
    serve('/docs/receivables-api.ts', 'text/plain; charset=utf-8', renderTypeScript(document)),
    ...EXAMPLE_FILES.map((name) =>
      serve(
        `/docs/examples/${name}`,
        'text/plain; charset=utf-8',
        readFileSync(new URL(name, EXAMPLES), 'utf8').replaceAll(EXAMPLES_BASE_URL, baseUrl),
      ),
    ),
    ...pages.map((page) => serve(page.path, 'text/html; charset=utf-8', renderLayout(page, site))),
    ...[site.stylesheet, site.script, ...Object.values(site.search)].map((asset) =>
      route(asset.path, (h, request) =>
        respond(asset, h, request).header('cache-control', 'public, max-age=31536000, immutable'),
      ),
    ),
    route('/docs/', (h) => h.redirect('/docs').permanent()),
    route('/docs/{path*}', (h) => h.response(missing).type('text/html; charset=utf-8').code(404)),
  ]
}

function createScript(name: string, file: string | URL): Asset {
  return createAsset(name, 'text/javascript; charset=utf-8', readFileSync(file))
}

/** Asked for again on every visit, and answered 304 unless it has changed. */
function serve(path: string, type: string, text: string): ServerRoute {
  const file = createFile(path, type, Buffer.from(text))
  return route(path, (h, request) => respond(file, h, request).header('cache-control', 'no-cache'))
}

function respond(
  { type, content, zipped, version }: Asset,
  h: Toolkit,
  { headers }: Request,
): ResponseObject {
  const takesGzip = /\bgzip\b(?!\s*;\s*q=0)/i.test(String(headers['accept-encoding'] ?? ''))
  const response = h
    .response(takesGzip ? zipped : content)
    .type(type)
    // Of what is zipped hapi makes it another.
    .etag(version)
    .header('vary', 'accept-encoding')
  return takesGzip ? response.header('content-encoding', 'gzip') : response
}

type Toolkit = Parameters<Extract<ServerRoute['handler'], (...words: never) => unknown>>[1]

function route(
  path: string,
  answer: (h: Toolkit, request: Request) => ResponseObject,
): ServerRoute {
  return {
    method: 'GET',
    path,
    handler(request, h) {
      return answer(h, request).header('content-security-policy', CONTENT_SECURITY_POLICY)
    },
  }
}
