/** What Node's parser could not read, as the problem that its client is told. */
import { Problem } from '../shared/problem.ts'
import { headersTooLarge, methodUnknown, TARGET_BYTES_MAX, targetTooLong } from './request-check.ts'

export interface ParserError extends NodeJS.ErrnoException {
  /** The bytes just read, and how many of them the parser took. */
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

/** `lineLength`: of the request line, as far as it came. */
export function parserProblem(error: ParserError, lineLength: number): Problem {
  const { rawPacket = Buffer.alloc(0), bytesParsed = 0 } = error
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return lineLength > TARGET_BYTES_MAX ? targetTooLong() : headersTooLarge()
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem('request_timeout', 'The request took too long to arrive.')
    case 'HPE_INVALID_METHOD': {
      // A request line all the same, of a method that the parser has not heard of.
      const from = rawPacket.lastIndexOf('\n', bytesParsed) + 1
      const line = rawPacket.toString('latin1', from, from + TARGET_BYTES_MAX)
      const method = /^([A-Za-z-]{1,40}) \/\S* HTTP\/1\.[01]\r?\n/.exec(line)?.[1]
      return method === undefined ? notHttp(error) : methodUnknown(method)
    }
    default:
      return notHttp(error)
  }
}

function notHttp(cause: Error): Problem {
  return new Problem('bad_request', 'This is not a well-formed HTTP/1.1 request.', { cause })
}
