/** The maximum sizes of the parts of a message. A larger part causes an `Http1Error`. */

/** The maximum length of the request target, which contains the path and the query. */
export const TARGET_BYTES_MAX = 8 * 1024
/** The maximum size of all headers of a request together. */
export const HEADER_BYTES_MAX = 16 * 1024
/** The maximum number of headers of a request. */
export const HEADERS_MAX = 100
/**
 * Longer heads are rejected while they arrive. This limit is higher than those of the target and the headers together,
 * so that a head in which one of them is slightly too long is still parsed, and the error can name it.
 */
export const REQUEST_HEAD_BYTES_MAX = 2 * (TARGET_BYTES_MAX + HEADER_BYTES_MAX)
export const RESPONSE_HEAD_BYTES_MAX = 32 * 1024
/** The maximum length of the line before a chunk, which contains the chunk's size and, rarely, extensions. */
export const CHUNK_LINE_BYTES_MAX = 16 * 1024
/** The maximum size of all trailers of a body together. */
export const TRAILER_BYTES_MAX = 16 * 1024
