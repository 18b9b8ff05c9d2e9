/**
 * A request's body, whole and in memory before anything is counted or sent: so that a call can be
 * refused, or repeated towards another backend, without harm.
 */
import type { IncomingMessage } from 'node:http'
import { Problem } from '../shared/problem.ts'
import type { BodyFraming } from './request-check.ts'

/** The largest body that is forwarded. */
export const BODY_BYTES_MAX = 256 * 1024
/** All bodies together: what a flood of large ones may take of our memory. */
const ALL_BODIES_BYTES_MAX = 64 * 1024 * 1024

/** `tooLarge`: over `BODY_BYTES_MAX`, the rest not read. Remembered: authentication comes first. */
export type Body = Buffer | 'tooLarge'

const EMPTY = Buffer.alloc(0)

export interface Bodies {
  /** Memory that they take at present. */
  readonly bytesHeld: number
  /**
   * Resolves with the whole body. Rejects with 503 where the memory for bodies is used up, and with
   * the signal's reason where the connection fails first.
   */
  read(req: IncomingMessage, framing: BodyFraming, signal: AbortSignal): Promise<Body>
  /** Gives the memory of a body back, once its call is answered. */
  release(body: Body): void
}

/** Whether there is a body that may be forwarded, as far as the head tells. */
export function isReadable(framing: BodyFraming): boolean {
  return (
    framing.kind === 'chunked' || (framing.kind === 'length' && framing.bytes <= BODY_BYTES_MAX)
  )
}

export function createBodies(): Bodies {
  let bytesHeld = 0

  function read(req: IncomingMessage, framing: BodyFraming, signal: AbortSignal): Promise<Body> {
    if (framing.kind === 'none') return Promise.resolve(EMPTY)
    if (!isReadable(framing)) return Promise.resolve('tooLarge')
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = []
      let bytes = 0
      const settle = (result: Body | Error) => {
        req.off('data', onData).off('end', onEnd)
        signal.removeEventListener('abort', onAbort)
        if (!(result instanceof Buffer)) bytesHeld -= bytes
        if (result instanceof Error) reject(result)
        else resolve(result)
      }
      const onData = (chunk: Buffer) => {
        bytes += chunk.length
        bytesHeld += chunk.length
        chunks.push(chunk)
        if (bytes > BODY_BYTES_MAX) settle('tooLarge')
        else if (bytesHeld > ALL_BODIES_BYTES_MAX) settle(overloaded())
      }
      const onEnd = () => settle(Buffer.concat(chunks, bytes))
      const onAbort = () => settle(signal.reason)
      if (signal.aborted) return onAbort()
      signal.addEventListener('abort', onAbort)
      req.on('data', onData).on('end', onEnd)
    })
  }

  function release(body: Body): void {
    if (body !== 'tooLarge') bytesHeld -= body.length
  }

  return {
    get bytesHeld() {
      return bytesHeld
    },
    read,
    release,
  }
}

function overloaded(): Problem {
  return new Problem('service_unavailable', 'Too many requests at once. Try again in a second.', {
    headers: { 'retry-after': '1' },
  })
}
