/**
 * Ends with exit code 0 if the process in this container is ready, because the image has no `curl`. It polls
 * both operations ports: only that of the running process responds.
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
