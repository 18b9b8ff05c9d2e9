/**
 * A low limit on open files lowers the limit on client connections, so that clients cannot use up the files that
 * connections to backends need.
 */
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import type { Response } from '../../gateway/downstream/response.ts'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import { startCrowd } from '../fixtures/servers/crowd.ts'
import { reservePort } from '../fixtures/servers/ports.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { THIS_MACHINE } from '../fixtures/service/machine.ts'
import { until } from '../fixtures/service/until.ts'
import { createBudget, startListener } from './fixtures/listener.ts'
import { startRawBackend } from './fixtures/raw-backend.ts'

const FILES_MAX = 400
/** 16 each for calls and internal requests, 8 for unknown keys and 4 for pages. */
const FILES_PER_BACKEND = 44
const OWN_FILES = 200

// Regression: the gateway reserved no files for pages and unknown keys, and reserved files for only one address of
// a host name.
t.test('files are reserved for all connections to each address of a backend', async (t) => {
  const zone = join(t.testdir({}), 'zone')
  const port = await reservePort()
  const addresses = ['127.0.0.2', '127.0.0.3', '127.0.0.4']
  for (const address of addresses) await startRawBackend(t, port, address)
  writeFileSync(zone, '127.0.0.2\n')
  const gateway = await startGateway(
    t,
    `http://backends.test:${port}`,
    {
      BACKEND_CONNECTIONS: '16',
      NODE_OPTIONS: `--import=${new URL('fixtures/resolve-from-file.ts', import.meta.url)}`,
      RESOLVE_FROM: zone,
      LOG_LEVEL: 'warn',
    },
    { ...THIS_MACHINE, enter: ['prlimit', `--nofile=${FILES_MAX}:${FILES_MAX}`] },
  )
  const connections = async () => {
    const { text } = await call(`http://127.0.0.1:${gateway.operationsPort}/metrics`)
    return Number(/^receivables_gateway_connections (\d+)/m.exec(text)?.[1])
  }
  const allowed = (backends: number) => FILES_MAX - OWN_FILES - backends * FILES_PER_BACKEND

  const crowd = startCrowd(t, { port: gateway.port, count: 300, addresses: 30 })
  await crowd.opened
  await until(async () => (await connections()) <= allowed(1), 'connections are closed')
  t.ok((await connections()) > allowed(1) - 32, 'at most 32 connections are closed at a time')
  t.equal(loggedLimits(gateway.log()).join(), String(allowed(1)))

  writeFileSync(zone, addresses.join('\n'))
  await until(async () => (await connections()) <= allowed(3), 'further connections are closed')
  t.equal(loggedLimits(gateway.log()).join(), `${allowed(1)},${allowed(3)}`)
  const { status } = await call(`${gateway.url}/api/v1/debtors`, { key: mintApiKey().secret })
  t.equal(status, 200)
  await crowd.close()
})

// Regression: one connection too many was counted as evicted if calls in progress kept the others open.
t.test('a lower limit closes only idle connections, and counts only those', async (t) => {
  const budget = createBudget()
  const { promise: response, resolve } = Promise.withResolvers<Response>()
  let calls = 0
  const serve = () => {
    calls++
    return response
  }
  const port = await startListener(t, { budget, serve })
  const sockets = Array.from({ length: 5 }, () => connect(port, '127.0.0.1').on('error', () => {}))
  t.teardown(() => sockets.map((socket) => socket.destroy()))
  for (const socket of sockets.slice(0, 3)) socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => calls === 3 && budget.connections.size === 5, 'three calls are in progress')
  budget.setConnectionsMax(2)
  t.strictSame([budget.connections.size, budget.evicted.connections], [3, 2])
  resolve({ status: 204, headers: [], body: undefined })
})

/** Returns the limits on connections in the log. */
function loggedLimits(log: string): number[] {
  return log
    .split('\n')
    .filter((line) => line.includes('the limit on open files is too low'))
    .map((line) => JSON.parse(line).connections)
}
