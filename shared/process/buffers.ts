/**
 * Allocates the buffers of messages. Their memory is not part of V8's heap, and V8 collects young buffers
 * only once they take 64 MB. Without the collections here, 60 clients with large responses made a gateway
 * grow by 160 MB, of which less than 1 MB was in use.
 */

/** Young garbage is collected each time this many bytes were allocated, which takes about a millisecond. */
const COLLECTED_BYTES = 16 * 1024 * 1024
/** Releasing smaller buffers individually is not worth the effort. */
const RELEASED_BYTES_MIN = 16 * 1024

let allocated = 0

/** Allocates a buffer with undefined content. */
export function allocateBuffer(bytes: number): Buffer {
  note(bytes)
  return Buffer.allocUnsafe(bytes)
}

export function copyBuffer(bytes: Buffer): Buffer {
  note(bytes.length)
  return Buffer.from(bytes)
}

/**
 * Releases the memory of an unused buffer immediately instead of at the next collection. Without this,
 * collections during a flood of incomplete heads took a third of the gateway's time. A buffer that is a part
 * of other memory, such as Node's pool, is left to the collector: others may use that memory, and to release
 * the pool throws.
 */
export function releaseBuffer({ buffer, length }: Buffer): void {
  const isWhole = length === buffer.byteLength
  if (length < RELEASED_BYTES_MIN || !isWhole || !(buffer instanceof ArrayBuffer)) return
  allocated = Math.max(0, allocated - length)
  buffer.transfer(0)
}

function note(bytes: number): void {
  allocated += bytes
  if (allocated < COLLECTED_BYTES) return
  allocated = 0
  // Undefined without the flag `--expose-gc`, see `gateway/main.ts`.
  globalThis.gc?.({ type: 'minor' })
}
