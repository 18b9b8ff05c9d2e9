import { once } from 'node:events'
import { createServer, get, type IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import t from 'tap'
import { BUFFERED_BYTES_MAX, bufferPage } from '../../gateway/pages/page-body.ts'
import { listen } from '../fixtures/servers/listen.ts'

// Regression: the connection to the backend stayed open, because the body was destroyed before its first read.
t.test('a page whose body is not read releases its connection to the backend', async (t) => {
  const server = createServer((_, response) => {
    response.write(Buffer.alloc(BUFFERED_BYTES_MAX + 1))
  })
  const port = await listen(t, server)
  const request = get({ host: '127.0.0.1', port })
  const [response]: IncomingMessage[] = await once(request, 'response')
  if (response === undefined) throw new Error('there is no response')
  const body = await bufferPage(response, 60_000)
  if (!(body instanceof Readable)) throw new Error('the body is not streamed')
  body.destroy()
  await once(response, 'close')
  t.equal(response.destroyed, true)
})
