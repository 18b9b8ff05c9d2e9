import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { NEEDS_NAMESPACE, WITHOUT_IPV4 } from '../fixtures/network/ipv6.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { GATEWAY_SECRET, startGateway } from '../fixtures/service/gateway.ts'
import { SCRIPT_ENV, startProcess } from '../fixtures/service/process.ts'
import { until } from '../fixtures/service/until.ts'

// Regression: workers could listen only on 127.0.0.1, and the health check of the image requested only this address.
t.test('a gateway with workers runs on a machine without IPv4', NEEDS_NAMESPACE, async (t) => {
  // The path of a socket has at most 107 bytes; the path of `t.testdir()` may be longer.
  const directory = mkdtempSync(join(tmpdir(), 'socket-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const [backend, redis] = [join(directory, 'backend.sock'), join(directory, 'redis.sock')]
  await startRedis(t, ['--unixsocket', redis])
  await startProcess(t, 'backend/main.ts', {
    DATA_DIR: t.testdir(),
    BACKEND_SOCKET: backend,
    BACKEND_OPERATIONS_PORT: '0',
    GATEWAY_SECRET,
    KEY_PEPPER: 'v1:pepper+of+the+tests+0123456789abcdefghij',
    SECRET_BOX_KEY: 'box+of+the+tests+0123456789abcdefghijklmn',
  })
  const settings = { GATEWAY_WORKERS: '2', REDIS_URL: `unix://${redis}` }
  const gateway = await startGateway(t, `unix:${backend}`, settings, WITHOUT_IPV4)

  /** Runs the health check of the image. It queries the supervisor, which queries the workers. */
  const isHealthy = (host: string) => {
    const env = {
      ...SCRIPT_ENV,
      GATEWAY_OPERATIONS_HOST: host,
      GATEWAY_OPERATIONS_PORT: String(gateway.operationsPort),
    }
    const words = [`--net=/proc/${gateway.pid}/ns/net`, process.execPath, 'deploy/health.ts']
    return spawnSync('nsenter', words, { env }).status === 0
  }
  await until(() => isHealthy('::'), 'the gateway and its workers are ready')
  t.ok(isHealthy('::1'))
  t.notOk(isHealthy('127.0.0.1'))
})
