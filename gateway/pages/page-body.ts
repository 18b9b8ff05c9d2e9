/** Reads the bodies of page responses. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

/** Bodies up to this size are buffered, so that a slow client does not occupy a connection to a backend. */
export const BUFFERED_BYTES_MAX = 1024 * 1024

/** A backend did not send a page, or the next part of it, in time. */
export class PageTimeout extends Error {}

/**
 * Resolves with the body if it has at most `BUFFERED_BYTES_MAX` bytes, otherwise with a stream of the body. Rejects if
 * the bytes to buffer do not arrive within `timeoutMs`, or if the response ends early. The stream fails if a further
 * part does not arrive within `timeoutMs` after the client is ready for it, or if the response ends early.
 */
export async function bufferPage(
  response: IncomingMessage,
  timeoutMs: number,
): Promise<Buffer | Readable> {
  const parts: Buffer[] = []
  let bytes = 0
  const arriving: AsyncIterator<Buffer> = response[Symbol.asyncIterator]()
  const deadline = performance.now() + timeoutMs
  const next = (waitMs: number) => nextPart(response, arriving, waitMs)
  while (bytes <= BUFFERED_BYTES_MAX) {
    const { done, value } = await next(deadline - performance.now())
    if (done === true) return Buffer.concat(parts, bytes)
    parts.push(value)
    bytes += value.length
  }
  const body = Readable.from(streamBody(parts, () => next(timeoutMs)))
  // Without this, the response would occupy a connection to the backend after the client has disconnected. A `finally`
  // in `streamBody` would not run if nothing has been read from the body.
  return body.once('close', () => response.destroy())
}

async function* streamBody(
  buffered: readonly Buffer[],
  next: () => Promise<IteratorResult<Buffer>>,
): AsyncGenerator<Buffer> {
  yield* buffered
  for (;;) {
    const { done, value } = await next()
    if (done === true) return
    yield value
  }
}

async function nextPart(
  response: IncomingMessage,
  arriving: AsyncIterator<Buffer>,
  waitMs: number,
): Promise<IteratorResult<Buffer>> {
  // Unlike a timeout of the backend's socket, this timer does not run while the gateway waits for a slow client.
  const timer = setTimeout(() => response.destroy(new PageTimeout('the page stalled')), waitMs)
  try {
    return await arriving.next()
  } finally {
    clearTimeout(timer)
  }
}
