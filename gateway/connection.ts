/**
 * What the requests of one connection share: each is begun when the one before it is done, so that
 * pipelined writes keep their order; each gets one answer; and once one is refused in a way that
 * closes, nothing behind it is acted on.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Problem } from '../shared/problem.ts'
import { createRawHeads } from './raw-heads.ts'

/**
 * How long a closing connection still reads and drops what the client sends. Closed at once, a
 * client that is still sending would see a reset instead of the answer.
 */
const LINGER_MS = 2_000
/**
 * A client that has closed its half may be gone, or still read: for this long the calls under way
 * may be answered, then they are given up.
 */
const HALF_CLOSED_MS = 1_000

export interface Exchange {
  readonly req: IncomingMessage
  /** Aborted with a `Problem` where the request breaks off or is too slow, else as the client goes. */
  readonly abort: AbortController
}

export interface Connection {
  /** The client's, or of the proxy in front; '' where it was gone at once. */
  readonly address: string
  /** Takes the head of the request that just came; see `RawHeads`. */
  takeHead(requestLine: string): number | undefined
  /** How long the request line is that is being read; 0 within a request. */
  lineLength(): number
  /**
   * Takes a place in line; resolves when its turn has come, with false where it is not to be acted
   * on. Not a promise where it is the only one.
   */
  begin(exchange: Exchange): boolean | Promise<boolean>
  /** The exchange is answered, or will never be. */
  end(exchange: Exchange): void
  /** The answer to `exchange` is the last: drops what is in line behind it. */
  closeAfter(exchange: Exchange): void
  /**
   * The parser gave up. The request it was reading is aborted with `problem`, and so answered in its
   * turn; where there is none, `renderAnswer` is sent after the answers still due.
   */
  fail(problem: Problem, renderAnswer: () => string): void
  /** Nothing more is acted on; the connection ends with the last answer that is due. */
  readNoMore(): void
  /** Whether the connection ends with the answer to `exchange`. */
  isLast(exchange: Exchange): boolean
}

interface Place {
  readonly exchange: Exchange
  readonly start: (go: boolean) => void
}

export function createConnection(socket: Socket): Connection {
  /** In the order they came; the first is under way. */
  let line: Place[] = []
  let latest: Exchange | undefined
  let closing = false
  let lastWords: (() => void) | undefined
  const rawHeads = createRawHeads()
  // Asked for later it may be gone.
  const address = socket.remoteAddress ?? ''

  // The one listener comes before the parser's, the other after it.
  socket.prependListener('data', (bytes: Buffer) => {
    if (!closing) rawHeads.add(bytes)
  })
  socket.on('data', () => rawHeads.forget(closing || isReadingBody()))
  // Node takes its own listener away with a CONNECT.
  socket.on('error', () => {})
  // Node calls this once the last answer is written; its own does not read what is still coming. Of a
  // client that has closed its half it takes the answer under way for the last.
  socket.destroySoon = () => {
    if (lastWords !== undefined) return
    socket.end()
    socket.resume()
    setTimeout(() => socket.destroy(), LINGER_MS).unref()
  }
  socket.on('end', () => {
    readNoMore()
    setTimeout(() => socket.destroy(), HALF_CLOSED_MS).unref()
  })
  socket.on('close', () => {
    for (const { exchange, start } of line) {
      exchange.abort.abort(new Error('the client went away'))
      start(false)
    }
  })

  const isReadingBody = () => latest !== undefined && !latest.req.complete

  function begin(exchange: Exchange): boolean | Promise<boolean> {
    if (closing) return false
    latest = exchange
    if (line.length === 0) {
      line.push({ exchange, start: () => {} })
      return true
    }
    // A client that pipelines is read again when the line is short.
    socket.pause()
    return new Promise((start) => line.push({ exchange, start }))
  }

  function end(exchange: Exchange): void {
    const wasFirst = line[0]?.exchange === exchange
    line = line.filter((place) => place.exchange !== exchange)
    if (line.length <= 1 && socket.isPaused()) socket.resume()
    if (wasFirst) line[0]?.start(true)
    if (line.length === 0) sayLastWords()
  }

  function closeAfter(exchange: Exchange): void {
    closing = true
    lastWords = undefined
    const at = line.findIndex((place) => place.exchange === exchange)
    for (const { start } of line.splice(at + 1)) start(false)
  }

  function fail(problem: Problem, renderAnswer: () => string): void {
    // The parser fails again on every byte that follows.
    if (closing) return
    closing = true
    const reading = isReadingBody() ? latest : undefined
    if (reading === undefined) {
      lastWords = () => {
        socket.write(renderAnswer())
        socket.destroySoon()
      }
      if (line.length === 0) sayLastWords()
    } else if (line.some(({ exchange }) => exchange === reading)) {
      reading.abort.abort(problem)
    } else {
      // Its one answer is out already.
      socket.destroy()
    }
  }

  function sayLastWords(): void {
    const say = lastWords
    lastWords = undefined
    say?.()
  }

  function readNoMore(): void {
    closing = true
    if (line.length === 0) socket.destroySoon()
  }

  function isLast(exchange: Exchange): boolean {
    return closing && lastWords === undefined && line.at(-1)?.exchange === exchange
  }

  const takeHead = rawHeads.take
  const lineLength = () => (isReadingBody() ? 0 : rawHeads.lineLength())

  return { address, takeHead, lineLength, begin, end, closeAfter, fail, readNoMore, isLast }
}
