/**
 * The memory that each client uses is counted. This includes clients behind a proxy, whose calls share its connections.
 */
import t from 'tap'
import { Clients } from '../../gateway/budget/clients.ts'
import { ConnectionMemory, Memory } from '../../gateway/budget/memory.ts'
import { BodyReader, CALL_BODY_LIMITS } from '../../gateway/downstream/request-body.ts'

const KIB = 1024

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
