/**
 * The memory that each client uses is counted. This includes clients behind a proxy, whose calls share its connections.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { Budget } from '../../gateway/budget/budget.ts'
import { Clients } from '../../gateway/budget/clients.ts'
import { ConnectionMemory, Memory } from '../../gateway/budget/memory.ts'
import { BodyReader, CALL_BODY_LIMITS } from '../../gateway/downstream/request-body.ts'
import { createLogger } from '../../shared/process/log.ts'
import { untilClosed } from '../fixtures/servers/until-closed.ts'
import { until } from '../fixtures/service/until.ts'
import { createBudget, startListener } from './fixtures/listener.ts'

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

const REQUEST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n'
const FRAMING = { kind: 'length', bytes: 2 } as const
const NEXT = `GET / HTTP/1.1\r\nHost: a\r\nX-A: ${'x'.repeat(45_000)}`
const OK = { status: 200, headers: [], body: undefined }

// Regression: each connection could use 64 KiB that were not counted.
t.test('bytes that arrive with the end of a body are counted', async (t) => {
  const budget = createBudget()
  const hasBegun = Promise.withResolvers<void>()
  let counted = 0
  const port = await startListener(t, {
    budget,
    async serve(_, call) {
      const body = call.readBody(FRAMING, CALL_BODY_LIMITS, false)
      hasBegun.resolve()
      await body
      counted = budget.bytesOf('unknown')
      return OK
    },
  })
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.write(`${REQUEST}{`)
  await hasBegun.promise
  socket.write(`}${NEXT}`)
  await once(socket, 'data')
  t.ok(counted >= NEXT.length, `${counted} bytes are counted`)
})

// Regression: these bytes were no longer counted after the body had been read.
t.test('bytes after a body are counted even if all have arrived before it is read', async (t) => {
  const budget = createBudget()
  let counted = 0
  const port = await startListener(t, {
    budget,
    async serve(_, call) {
      await until(() => budget.bytesOf('unknown') >= NEXT.length, 'the bytes have arrived')
      await call.readBody(FRAMING, CALL_BODY_LIMITS, false)
      counted = budget.bytesOf('unknown')
      return OK
    },
  })
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.write(`${REQUEST}{}${NEXT}`)
  await once(socket, 'data')
  t.ok(counted >= NEXT.length, `${counted} bytes are counted`)
})
