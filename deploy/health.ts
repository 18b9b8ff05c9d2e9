/**
 * Exit code 0 where the process in this container is ready: what its image has no `curl` for. Which of
 * the two it is shows in who answers.
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
