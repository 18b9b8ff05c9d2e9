/** Reads the bodies of page responses. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

/** Pages up to this size are buffered, so that a slow client does not occupy a connection to a backend. */
const BUFFERED_BYTES_MAX = 1024 * 1024

/**
 * Resolves with the body if it is small, otherwise with a stream of the body. If the response ends early, the
 * promise is rejected or the stream fails.
 */
export async function bufferPage(response: IncomingMessage): Promise<Buffer | Readable> {
  const parts: Buffer[] = []
  let bytes = 0
  const rest: AsyncIterator<Buffer> = response[Symbol.asyncIterator]()
  while (bytes <= BUFFERED_BYTES_MAX) {
    const { done, value } = await rest.next()
    if (done === true) return Buffer.concat(parts, bytes)
    parts.push(value)
    bytes += value.length
  }
  return Readable.from(concat(parts, rest, response))
}

async function* concat(
  parts: readonly Buffer[],
  rest: AsyncIterator<Buffer>,
  response: IncomingMessage,
): AsyncGenerator<Buffer> {
  try {
    yield* parts
    for (;;) {
      const { done, value } = await rest.next()
      if (done === true) return
      yield value
    }
  } finally {
    // Without this, the rest of the response would be read although the client has disconnected.
    response.destroy()
  }
}
