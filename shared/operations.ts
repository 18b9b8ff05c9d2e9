/** The operations listener of either process: is it alive, may it get traffic, what does it count. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { collectDefaultMetrics, Registry } from 'prom-client'

export interface Readiness {
  /** False keeps traffic away: before the first contact with what we depend on, and while draining. */
  readonly ready: boolean
  /** Why it is not ready, or ready but impaired. */
  readonly reasons: readonly string[]
}

export interface Operations {
  readonly port: number
  readonly registry: Registry
  close(): Promise<void>
}

export async function startOperations(
  host: string,
  port: number,
  readiness: () => Readiness,
): Promise<Operations> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })

  const server = createServer(async (req, res) => {
    switch (req.url) {
      case '/healthz':
        return void res.end('ok\n')
      case '/readyz': {
        const { ready, reasons } = readiness()
        const status = ready ? (reasons.length > 0 ? 'degraded' : 'ready') : 'not ready'
        res.writeHead(ready ? 200 : 503, { 'content-type': 'application/json' })
        return void res.end(`${JSON.stringify({ status, reasons })}\n`)
      }
      case '/metrics':
        res.writeHead(200, { 'content-type': registry.contentType })
        return void res.end(await registry.metrics())
      default:
        res.writeHead(404)
        return void res.end()
    }
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return {
    // A TCP server that listens has an address of this form.
    port: (server.address() as AddressInfo).port,
    registry,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
