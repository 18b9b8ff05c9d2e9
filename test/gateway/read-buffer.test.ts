/** What a server accepted, paused, is read in either way. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { readAccepted } from '../../gateway/http1/read-buffer.ts'

for (const [way, prepare] of [
  ['into the shared buffer', () => {}],
  // As TLS has it, whose handle is its own.
  ['as the stream it is', (accepted: Socket) => Reflect.set(accepted, 'encrypted', true)],
] as const) {
  t.test(`an accepted socket is read ${way}, and counted until it closes`, async (t) => {
    const server = createServer({ pauseOnConnect: true, allowHalfOpen: true })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const [accepted] = await once(server, 'connection')
    prepare(accepted)
    const socket = await new Promise<Socket>((resolve) => {
      const own: Socket = readAccepted(accepted, (bytes) => {
        t.equal(bytes.toString(), 'hello')
        resolve(own)
      })
      client.write('hello')
    })
    const closed = once(server, 'close')
    server.close()
    socket.destroy()
    await closed
    client.destroy()
  })
}
