/**
 * The health check of the image, which has no `curl`: exits with code 0 if the process in this container is
 * ready. The image does not know which of the two processes it runs, so the check sends a request to the operations
 * ports of both.
 */
import { isIPv6 } from 'node:net'

const { env } = process
const responses = await Promise.allSettled(
  [
    ...originsOf(
      env['GATEWAY_OPERATIONS_HOST'] || '127.0.0.1',
      env['GATEWAY_OPERATIONS_PORT'] || '8082',
    ),
    ...originsOf(
      env['BACKEND_OPERATIONS_HOST'] || '127.0.0.1',
      env['BACKEND_OPERATIONS_PORT'] || '8083',
    ),
  ].map((origin) => fetch(`${origin}/readyz`, { signal: AbortSignal.timeout(2000) })),
)

process.exitCode = responses.some(
  (response) => response.status === 'fulfilled' && response.value.ok,
)
  ? 0
  : 1

/** If a process listens on all addresses, the check tries IPv4 and IPv6: a container may have only one of them. */
function originsOf(host: string, port: string): string[] {
  const hosts = host === '0.0.0.0' || host === '::' ? ['127.0.0.1', '::1'] : [host]
  return hosts.map((one) => `http://${isIPv6(one) ? `[${one}]` : one}:${port}`)
}
