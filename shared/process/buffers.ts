/**
 * Allocates most buffers of HTTP messages, and releases them. Their memory is not part of V8's heap, and V8 collects
 * young buffers only when they take 64 MB. Without the collections that this module triggers, 60 clients with large
 * responses made a gateway grow by 160 MB, of which less than 1 MB was in use.
 */

/**
 * Young garbage is collected whenever this many bytes have been allocated since the last collection, apart from those
 * that `releaseBuffer` has released. A collection takes about a millisecond.
 */
const COLLECT_AFTER_BYTES = 16 * 1024 * 1024

/** Smaller buffers are left to the garbage collector: releasing each one would take more time than it saves. */
const RELEASED_BYTES_MIN = 16 * 1024

/**
 * The bytes that this module has allocated since the last collection, minus all bytes that it has released. Buffers
 * that were allocated elsewhere may be among those released, so this is an estimate.
 */
let allocatedBytes = 0

/** The content is not initialized. */
export function allocateBuffer(bytes: number): Buffer {
  countAllocated(bytes)
  return Buffer.allocUnsafe(bytes)
}

export function copyBuffer(bytes: Buffer): Buffer {
  countAllocated(bytes.length)
  return Buffer.from(bytes)
}

/**
 * Releases the memory of an unused buffer immediately instead of at the next collection. Without this, collections
 * during a flood of incomplete heads took a third of the gateway's time. A buffer that is only a part of an allocation,
 * such as Node's pool, is left to the garbage collector: other buffers may use the remaining part.
 */
export function releaseBuffer({ buffer, length }: Buffer): void {
  const isWhole = length === buffer.byteLength
  if (length < RELEASED_BYTES_MIN || !isWhole || !(buffer instanceof ArrayBuffer)) return
  allocatedBytes = Math.max(0, allocatedBytes - length)
  // Detaches the memory from the buffer, and frees all of it at once.
  buffer.transfer(0)
}

function countAllocated(bytes: number): void {
  allocatedBytes += bytes
  if (allocatedBytes < COLLECT_AFTER_BYTES) return
  allocatedBytes = 0
  // `gc` is undefined without the flag `--expose-gc`, see `gateway/main.ts`.
  globalThis.gc?.({ type: 'minor' })
}
