// Regression: on a busy machine, rendering the documentation took so long that the first reader got a 504.
import { server as createHapi } from '@hapi/hapi'
import t from 'tap'
import { createAsset } from '../../../backend/docs/assets.ts'
import type { RenderedDocs } from '../../../backend/docs/render-docs.ts'
import { docsRoutes } from '../../../backend/docs/routes.ts'
import { matches } from '../../fixtures/matches.ts'

const PAGE = createAsset('/docs', 'text/html; charset=utf-8', '<title>Documentation</title>')
const DOCS: RenderedDocs = { files: new Map([[PAGE.path, PAGE]]), notFoundPage: 'not found' }

function serve(rendered: () => Promise<RenderedDocs>, waitMsMax?: number) {
  const server = createHapi()
  server.route([...docsRoutes(rendered, waitMsMax)])
  return (url: string) => server.inject(url)
}

t.test('while the documentation is rendered, readers get 503 with Retry-After', async (t) => {
  const rendering = Promise.withResolvers<RenderedDocs>()
  const get = serve(() => rendering.promise, 1)
  for (const path of ['/docs', '/docs/openapi.json']) {
    const { statusCode, headers, payload } = await get(path)
    t.equal(statusCode, 503)
    matches(t, headers, {
      'retry-after': '3',
      refresh: '3',
      'cache-control': 'no-store',
      'content-type': 'text/html; charset=utf-8',
    })
    matches(t, payload, /<h1>The documentation is being prepared<\/h1>/)
  }
  rendering.resolve(DOCS)
  t.equal((await get('/docs')).statusCode, 200)
})

t.test(
  'a request that arrives shortly before the documentation is rendered waits for it',
  async (t) => {
    const rendering = Promise.withResolvers<RenderedDocs>()
    const get = serve(() => rendering.promise)
    const response = get('/docs')
    rendering.resolve(DOCS)
    matches(t, await response, { statusCode: 200, payload: '<title>Documentation</title>' })
  },
)
