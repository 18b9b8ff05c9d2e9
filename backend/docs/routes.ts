/** The documentation, outside /api/v1 so that the prefix keeps exactly the operations of the API. */
import type { ServerRoute } from '@hapi/hapi'
import { readContractDocument } from '../../shared/contract.ts'

export function docsRoutes(): ServerRoute[] {
  const { yaml, json } = readContractDocument()
  const serve = (path: string, type: string, text: string): ServerRoute => ({
    method: 'GET',
    path,
    handler: (_, h) => h.response(text).type(type),
  })
  return [
    serve('/docs/openapi.json', 'application/json', json),
    serve('/docs/openapi.yaml', 'application/yaml', yaml),
  ]
}
