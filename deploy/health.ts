/**
 * The health check of the image, which has no `curl`: exits with code 0 if the process in this container is
 * ready. The image does not know which of the two processes it runs, so the check requests both operations
 * ports.
 */
const ports = [
  process.env['GATEWAY_OPERATIONS_PORT'] || '8082',
  process.env['BACKEND_OPERATIONS_PORT'] || '8083',
]

const responses = await Promise.allSettled(
  ports.map((port) =>
    fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(2000) }),
  ),
)

process.exitCode = responses.some(
  (response) => response.status === 'fulfilled' && response.value.ok,
)
  ? 0
  : 1
