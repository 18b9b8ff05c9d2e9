/** A connection to a backend. It carries requests one after another, each followed by its response. */
import type { Socket } from 'node:net'
import { renderRequestHead, writeMessage } from '../http1/message-writer.ts'
import { ResponseReader } from '../http1/response-reader.ts'

export interface BackendRequest {
  readonly method: string
  /** The path and the query. */
  readonly target: string
  /**
   * Names in lower case and values alternate. The connection adds `Host` and, unless the request is a GET or HEAD
   * without a body, `Content-Length`.
   */
  readonly headers: readonly string[]
  readonly body: Buffer
}

/** Handles the response to a request. If `onSend` returns true, the last call is either `onEnd` or `onError`. */
export interface ResponseHandler {
  /**
   * Called right before the request is sent. If this returns false, e.g. because the request was aborted while it was
   * queued, the request is not sent.
   */
  onSend(connection: BackendConnection): boolean
  /** Called when the first byte of the response has arrived. */
  onBegin(): void
  /** See `ResponseReceiver.onHead`. */
  onHead(status: number, fields: readonly string[], length: number | undefined): void
  /** `part` is valid only until this method returns, because all connections share one read buffer. */
  onData(part: Buffer): void
  onEnd(): void
  onError(error: Error): void
  /**
   * Aborts the request if its deadline has passed. `now` is `performance.now()`. Returns false if the request has
   * ended.
   */
  abortIfLate(now: number): boolean
}

/** The backend closed the connection before the response was complete, or the response is malformed. */
class ResponseLost extends Error {}

export interface BackendConnectionOptions {
  readonly socket: Socket
  readonly host: string
  /** Called when the connection can carry another request. */
  onFree(connection: BackendConnection): void
  /** See `PoolEvents`. */
  onNotReusable(): void
  onClose(connection: BackendConnection): void
}

export class BackendConnection {
  readonly #socket: Socket
  readonly #options: BackendConnectionOptions
  readonly #reader: ResponseReader
  #handler: ResponseHandler | undefined
  #hasResponseBegun = false

  constructor(options: BackendConnectionOptions) {
    const { socket } = options
    this.#options = options
    this.#socket = socket
    this.#reader = new ResponseReader({
      onHead: (status, fields, length) => this.#handler?.onHead(status, fields, length),
      onData: (part) => this.#handler?.onData(part),
      onEnd: (isReusable) => this.#end(isReusable),
    })
    socket.on('end', () => this.abort(new ResponseLost('the backend closed its connection')))
    socket.on('error', (error) => this.abort(error))
    socket.on('close', () => {
      this.abort(new ResponseLost('the connection is closed'))
      options.onClose(this)
    })
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed
  }

  /** See `ResponseReader.keepAliveMs`. */
  get keepAliveMs(): number {
    return this.#reader.keepAliveMs
  }

  /** Must be called only while no other request is in progress. */
  send({ method, target, headers, body }: BackendRequest, handler: ResponseHandler): void {
    this.#handler = handler
    this.#hasResponseBegun = false
    this.#reader.expect(method)
    const needsLength = body.length > 0 || (method !== 'GET' && method !== 'HEAD')
    const fields = ['host', this.#options.host, ...headers]
    if (needsLength) fields.push('content-length', String(body.length))
    writeMessage(this.#socket, renderRequestHead(method, target, fields), body)
  }

  /** Stops reading the response until `resume` is called (backpressure). */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  abortIfLate(now: number): void {
    this.#handler?.abortIfLate(now)
  }

  /** Closes the connection and fails the request in progress with `reason`. */
  abort(reason: Error): void {
    const handler = this.#handler
    this.#handler = undefined
    this.#reader.stop()
    this.#socket.destroy()
    handler?.onError(reason)
  }

  /** Parses bytes from the backend. The caller may reuse their memory afterwards. */
  read(bytes: Buffer): void {
    // Bytes that no request expects could be mistaken for the next response.
    if (this.#handler === undefined) return void this.#socket.destroy()
    if (!this.#hasResponseBegun) {
      this.#hasResponseBegun = true
      this.#handler.onBegin()
    }
    try {
      this.#reader.read(bytes)
    } catch (error) {
      this.abort(new ResponseLost('the response is malformed', { cause: error }))
    }
  }

  #end(isReusable: boolean): void {
    const handler = this.#handler
    this.#handler = undefined
    // If the backend responded before it had read the whole request, the connection cannot be used again.
    if (isReusable && this.#socket.writableLength === 0) {
      if (this.#socket.isPaused()) this.#socket.resume()
      this.#options.onFree(this)
    } else {
      this.#socket.destroy()
      this.#options.onNotReusable()
    }
    handler?.onEnd()
  }
}
