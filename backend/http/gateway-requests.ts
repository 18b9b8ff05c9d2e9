/**
 * Accepts only requests of gateways. An API call carries a principal, which `authentication.ts` verifies. Any
 * other request carries a signature over method, path and body. An API call without a principal, and any other request
 * without a valid signature, get the same bare 404 whether or not their route exists.
 */
import type { Request, ResponseToolkit, Server } from '@hapi/hapi'
import {
  isRequestSigned,
  PRINCIPAL_HEADER,
  SIGNATURE_HEADER,
} from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'

/**
 * Larger than the limit of API calls, because usage reports and forms with a CSV file can be larger. A request with a
 * longer body gets 413 before its signature is verified.
 */
const SIGNED_BODY_BYTES_MAX = 1024 * 1024

export interface GatewayRequestsDeps {
  readonly gatewaySecrets: readonly string[]
  readonly clock: () => Date
}

/** Handlers outside of the API find the body as a Buffer in `request.payload`. */
export function admitGatewaysOnly(server: Server, deps: GatewayRequestsDeps): void {
  server.ext('onRequest', async (request, h) => {
    if (request.path.startsWith('/api/v1/')) {
      return request.headers[PRINCIPAL_HEADER] === undefined ? respondBare404(h) : h.continue
    }
    const signature = request.headers[SIGNATURE_HEADER]
    if (typeof signature !== 'string') return respondBare404(h)
    const { method = '', url = '' } = request.raw.req
    const body = await readBody(request)
    const signed = { method, path: url, body }
    if (!isRequestSigned(signed, signature, deps.clock().getTime(), deps.gatewaySecrets)) {
      return respondBare404(h)
    }
    // hapi parses no payload if the request already has one.
    if (request.method !== 'get' && request.method !== 'head') {
      Object.assign(request, { payload: body })
    }
    return h.continue
  })
}

export function respondBare404(h: ResponseToolkit) {
  return h.response().code(404).takeover()
}

async function readBody({ raw: { req } }: Request): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  // A request that is too long is not destroyed, because the response uses the same socket.
  for await (const chunk of req.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > SIGNED_BODY_BYTES_MAX) {
      throw new Problem('payload_too_large', 'The body is too large.', {
        members: { max_bytes: SIGNED_BODY_BYTES_MAX },
      })
    }
  }
  return Buffer.concat(chunks)
}
