/** Reads the bodies of page responses. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'

/** Pages up to this size are buffered, so that a slow client does not occupy a connection to a backend. */
export const BUFFERED_BYTES_MAX = 1024 * 1024

/** A backend did not send a page, or the next part of it, in time. */
export class PageTimeout extends Error {}

/**
 * Resolves with the body if it is small, otherwise with a stream of the body. A body that is buffered must arrive
 * within `timeoutMs`, and each further part of a stream within the same time after the client is ready for it. If the
 * response is late or ends early, the promise is rejected or the stream fails.
 */
export async function bufferPage(
  response: IncomingMessage,
  timeoutMs: number,
): Promise<Buffer | Readable> {
  const parts: Buffer[] = []
  let bytes = 0
  const rest: AsyncIterator<Buffer> = response[Symbol.asyncIterator]()
  const deadline = performance.now() + timeoutMs
  const next = (waitMs: number) => nextPart(response, rest, waitMs)
  while (bytes <= BUFFERED_BYTES_MAX) {
    const { done, value } = await next(deadline - performance.now())
    if (done === true) return Buffer.concat(parts, bytes)
    parts.push(value)
    bytes += value.length
  }
  return Readable.from(concat(parts, () => next(timeoutMs), response))
}

async function* concat(
  parts: readonly Buffer[],
  next: () => Promise<IteratorResult<Buffer>>,
  response: IncomingMessage,
): AsyncGenerator<Buffer> {
  try {
    yield* parts
    for (;;) {
      const { done, value } = await next()
      if (done === true) return
      yield value
    }
  } finally {
    // Without this, the rest of the response would be read although the client has disconnected.
    response.destroy()
  }
}

async function nextPart(
  response: IncomingMessage,
  parts: AsyncIterator<Buffer>,
  waitMs: number,
): Promise<IteratorResult<Buffer>> {
  // A timeout of the socket would also expire while the response is not read because the client is slow.
  const timer = setTimeout(() => response.destroy(new PageTimeout('the page stalled')), waitMs)
  try {
    return await parts.next()
  } finally {
    clearTimeout(timer)
  }
}
