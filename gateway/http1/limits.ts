/** The maximum sizes of the parts of a message. A larger part causes an `Http1Error`. */

export const TARGET_BYTES_MAX = 8 * 1024
export const HEADER_BYTES_MAX = 16 * 1024
export const HEADERS_MAX = 100
/**
 * Longer heads are rejected while they arrive. A shorter head is parsed first, so that the error can name the
 * part that is too long.
 */
export const REQUEST_HEAD_BYTES_MAX = 2 * (TARGET_BYTES_MAX + HEADER_BYTES_MAX)
export const RESPONSE_HEAD_BYTES_MAX = 32 * 1024
/** The maximum length of the line before a chunk, which contains the chunk's size. */
export const CHUNK_LINE_BYTES_MAX = 16 * 1024
/** The maximum size of all trailers of a body together. */
export const TRAILER_BYTES_MAX = 16 * 1024
