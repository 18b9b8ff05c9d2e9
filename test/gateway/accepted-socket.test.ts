/**
 * Accepted sockets are read into a shared buffer through Node's private handle. The first case fails if a version of
 * Node changes this handle.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { readAccepted } from '../../gateway/downstream/accepted-socket.ts'

const BYTES = 1024 * 1024

const CASES = [
  { how: 'into the shared buffer', isReplaced: true, prepare: () => {} },
  {
    how: 'as a stream, as with TLS',
    isReplaced: false,
    prepare: (accepted: Socket) => Reflect.set(accepted, 'encrypted', true),
  },
]

async function open(t: Test) {
  const server = createServer({ pauseOnConnect: true, allowHalfOpen: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => client.destroy())
  const [accepted]: Socket[] = await once(server, 'connection')
  if (accepted === undefined) throw new Error('no socket was accepted')
  return { server, client, accepted }
}

for (const { how, isReplaced, prepare } of CASES) {
  t.test(
    `an accepted socket is read ${how}, and no longer keeps its server open once destroyed`,
    async (t) => {
      const { server, client, accepted } = await open(t)
      prepare(accepted)
      const received: Buffer[] = []
      const checks: (() => void)[] = []
      const socket = readAccepted(accepted, (bytes) => {
        received.push(bytes)
        for (const check of checks) check()
      })
      const untilReceived = (text: string) =>
        new Promise<void>((resolve) => {
          checks.push(() => {
            if (Buffer.concat(received).toString() === text) resolve()
          })
        })
      t.equal(socket !== accepted, isReplaced, 'whether another socket replaces the accepted one')
      client.write('hello')
      await untilReceived('hello')
      client.write(' again')
      await untilReceived('hello again')
      const closed = once(server, 'close')
      server.close()
      socket.destroy()
      await closed
    },
  )

  // Regression: a client that sent many bytes, which took long to parse, made all other clients wait.
  t.test(`if an accepted socket is read ${how}, other sockets get their turn`, async (t) => {
    const { server, client, accepted } = await open(t)
    prepare(accepted)
    client.write(Buffer.alloc(BYTES))
    let bytes = 0
    let bytesOfTurn = 0
    let bytesOfTurnMax = 0
    const socket = readAccepted(accepted, ({ length }) => {
      bytes += length
      bytesOfTurn += length
      bytesOfTurnMax = Math.max(bytesOfTurnMax, bytesOfTurn)
    })
    while (bytes < BYTES) {
      bytesOfTurn = 0
      await setImmediate()
    }
    // The last read of a turn, of at most 64 KiB, may begin shortly before the limit of 256 KiB is reached.
    t.ok(bytesOfTurnMax < 320 * 1024, `${bytesOfTurnMax} bytes in one turn`)
    socket.destroy()
    server.close()
  })
}
