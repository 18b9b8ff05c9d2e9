/**
 * The listener for those who run the service: liveness, readiness, metrics. Apart from the calls,
 * so that it is reachable where they are not, and not reachable where they are.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { collectDefaultMetrics, Registry } from 'prom-client'

export interface Health {
  /** Why no calls are taken; empty where they are. */
  readonly unready: readonly string[]
  /** What is impaired while calls are taken, e.g. writes on a full disk. */
  readonly degraded: readonly string[]
}

export interface Operations {
  readonly port: number
  close(): Promise<void>
}

export async function listenForOperations(
  { host, port }: { readonly host: string; readonly port: number },
  checkHealth: () => Promise<Health>,
): Promise<Operations> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const server = createServer((request, response) => {
    serve(request.url ?? '', response).catch(() => answer(response, 500, 'text/plain', ''))
  })

  async function serve(path: string, response: ServerResponse): Promise<void> {
    if (path === '/healthz') return answer(response, 200, 'application/json', '{"alive":true}')
    if (path === '/metrics') {
      return answer(response, 200, registry.contentType, await registry.metrics())
    }
    if (path === '/readyz') {
      const { unready, degraded } = await checkHealth()
      const ready = unready.length === 0
      const body = JSON.stringify({ ready, reasons: unready, degraded })
      return answer(response, ready ? 200 : 503, 'application/json', body)
    }
    answer(response, 404, 'text/plain', '')
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve)
  })
  // `listen` on a host and a port gives an address with a port.
  const { port: listening } = server.address() as AddressInfo
  return {
    port: listening,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function answer(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body)
}
