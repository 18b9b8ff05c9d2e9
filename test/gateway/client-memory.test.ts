/**
 * The memory that each client uses is counted. This includes clients behind a proxy, whose calls share its connections.
 */
import { connect } from 'node:net'
import t from 'tap'
import { Budget } from '../../gateway/budget/budget.ts'
import { Clients } from '../../gateway/budget/clients.ts'
import { ConnectionMemory, Memory } from '../../gateway/budget/memory.ts'
import { BodyReader, CALL_BODY_LIMITS } from '../../gateway/downstream/request-body.ts'
import { createLogger } from '../../shared/process/log.ts'
import { untilClosed } from '../fixtures/servers/until-closed.ts'
import { until } from '../fixtures/service/until.ts'
import { startListener } from './fixtures/listener.ts'

const KIB = 1024
const MIB = 1024 * KIB

function start() {
  const clients = new Clients()
  const proxy = clients.of('192.0.2.1', false)
  proxy.connections++
  // Calls whose key is not cached may use a quarter: 16 KiB in total, and 8 KiB for each client.
  const limits = { bytesMax: 64 * KIB, bytesPerClientMax: 32 * KIB }
  const memory = new Memory(limits, [], clients, () => {})
  return { clients, openConnection: () => new ConnectionMemory(memory, proxy) }
}

// Regression: the gateway kept such clients until it ended.
t.test('clients for which there was no memory are deleted', (t) => {
  const { clients, openConnection } = start()
  for (let n = 0; n < 3; n++) {
    const client = clients.of(`198.51.100.${n}`, true)
    t.notOk(openConnection().set(100 * KIB, false, client))
  }
  t.equal(clients.size, 1)
  t.end()
})

// Regression: each later call of a client over a connection counted as the call of another client.
t.test('the memory of a client is limited even if it is used over several connections', (t) => {
  const { clients, openConnection } = start()
  const client = () => clients.of('198.51.100.1', true)
  const connections = [openConnection(), openConnection()]
  for (const connection of connections) {
    t.ok(connection.set(KIB, false, client()))
    t.ok(connection.set(0, false, client()))
  }
  t.strictSame(
    connections.map((connection) => connection.set(5 * KIB, false, client())),
    [true, false],
  )
  t.end()
})

// Regression: each connection could use 16 KiB that were not counted.
t.test('the memory of a chunk line that has not ended is counted', (t) => {
  let memory = 0
  const reader = new BodyReader({
    framing: { kind: 'chunked' },
    limits: CALL_BODY_LIMITS,
    onMemory(bytes) {
      memory = bytes
    },
  })
  const line = `5;a="${'x'.repeat(15_000)}`
  t.equal(reader.read(Buffer.from(line)), undefined)
  t.equal(memory, line.length)
  const { body } = reader.read(Buffer.from('"\r\nhello\r\n0\r\n\r\n')) ?? {}
  t.equal(body?.toString(), 'hello')
  t.ok(memory < line.length)
  reader.discard()
  t.equal(memory, 0)
  t.end()
})

// Regression: if other clients released memory meanwhile, the response was counted until the gateway ended.
t.test(
  'a response that was aborted because the memory is used up is no longer counted',
  async (t) => {
    const bytesMax = 256 * MIB
    const limits = { connectionsMax: 10, connectionsPerClientMax: 10 }
    const log = createLogger('test', 'silent')
    const budget = new Budget({ ...limits, bytesMax, bytesPerClientMax: bytesMax }, log)
    const others = budget.createConnectionMemory(budget.clientOf('192.0.2.1', { isLimited: false }))
    t.ok(others.set(bytesMax / 4 - 32 * MIB, false, others.client))
    let bytesWhenAborted = 0
    const port = await startListener(t, {
      budget,
      // The kernel buffers less than this.
      serve: () => ({ status: 200, headers: [], body: Buffer.alloc(40 * MIB) }),
      onSettled() {
        bytesWhenAborted = budget.bytesOf('unknown')
        others.set(0, false, others.client)
      },
    })
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.resume().write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await untilClosed(socket)
    await until(() => budget.connections.size === 0, 'the connection is closed')
    t.equal(bytesWhenAborted, bytesMax / 4 - 32 * MIB, 'the response was aborted')
    t.equal(budget.bytesOf('unknown'), 0)
  },
)
