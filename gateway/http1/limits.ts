/** The maximum sizes of the parts of a message. A larger part causes an `Http1Error`. */

/** The request target consists of the path and the query. */
export const TARGET_BYTES_MAX = 8 * 1024
/** All headers of a request together. */
export const HEADER_BYTES_MAX = 16 * 1024
export const HEADERS_MAX = 100
/**
 * Longer heads are rejected while they arrive. The limit is so high that a head whose target or headers are slightly
 * too long is still parsed, and the error can name what is too long.
 */
export const REQUEST_HEAD_BYTES_MAX = 2 * (TARGET_BYTES_MAX + HEADER_BYTES_MAX)
export const RESPONSE_HEAD_BYTES_MAX = 32 * 1024
/** The line before a chunk, which contains the chunk's size and, rarely, extensions. */
export const CHUNK_LINE_BYTES_MAX = 16 * 1024
/** All trailers of a body together. */
export const TRAILER_BYTES_MAX = 16 * 1024
