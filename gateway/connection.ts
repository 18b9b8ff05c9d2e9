/**
 * What the requests of one connection share: each is begun when the one before it is done, so that
 * pipelined writes keep their order; each gets one answer; and once one is refused in a way that
 * closes, nothing behind it is acted on.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Problem } from '../shared/problem.ts'

/**
 * How long a closing connection still reads and drops what the client sends. Closed at once, a
 * client that is still sending would see a reset instead of the answer.
 */
const LINGER_MS = 2_000

export interface Exchange {
  readonly req: IncomingMessage
  /** Aborted with a `Problem` where the request breaks off or is too slow, else as the client goes. */
  readonly abort: AbortController
}

export interface Connection {
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
  isClosing(): boolean
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

  socket.on('close', () => {
    for (const { exchange, start } of line) {
      exchange.abort.abort(new Error('the client went away'))
      start(false)
    }
  })

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
    if (line.length === 0) lastWords?.()
  }

  function closeAfter(exchange: Exchange): void {
    beginClosing()
    const at = line.findIndex((place) => place.exchange === exchange)
    for (const { start } of line.splice(at + 1)) start(false)
  }

  function fail(problem: Problem, renderAnswer: () => string): void {
    // The parser fails again on every byte that follows.
    if (closing) return
    beginClosing()
    const reading = latest !== undefined && !latest.req.complete ? latest : undefined
    if (reading === undefined) {
      lastWords = () => {
        socket.write(renderAnswer())
        socket.destroySoon()
      }
      if (line.length === 0) lastWords()
    } else if (line.some(({ exchange }) => exchange === reading)) {
      reading.abort.abort(problem)
    } else {
      // Its one answer is out already.
      socket.destroy()
    }
  }

  function beginClosing(): void {
    if (closing) return
    closing = true
    // Node calls this once the last answer is written; its own does not read what is still coming.
    socket.destroySoon = () => {
      socket.end()
      socket.resume()
      setTimeout(() => socket.destroy(), LINGER_MS).unref()
    }
  }

  return { begin, end, closeAfter, fail, isClosing: () => closing }
}
