/**
 * Accepted sockets are read into a shared buffer through Node's private handle. The first case fails if a version of
 * Node changes this handle.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { readAccepted } from '../../gateway/downstream/accepted-socket.ts'

for (const { how, replaces, prepare } of [
  { how: 'into the shared buffer', replaces: true, prepare: () => {} },
  {
    how: 'as a stream, as with TLS',
    replaces: false,
    prepare: (accepted: Socket) => Reflect.set(accepted, 'encrypted', true),
  },
]) {
  t.test(
    `an accepted socket is read ${how}, and no longer keeps its server open once destroyed`,
    async (t) => {
      const server = createServer({ pauseOnConnect: true, allowHalfOpen: true })
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
      t.teardown(() => client.destroy())
      const [accepted]: Socket[] = await once(server, 'connection')
      if (accepted === undefined) throw new Error('no socket was accepted')
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
      t.equal(socket !== accepted, replaces)
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
}
