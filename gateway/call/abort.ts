/** Work of a call that can be aborted, such as reading its body. */
export interface Abortable {
  abort(reason: Error): void
}

/**
 * Aborts the work of a call. One listener is enough, since the steps of a call run one after another. The
 * `addEventListener` of an `AbortSignal` takes more CPU time than all other bookkeeping of a step.
 */
export class Abort {
  #reason: Error | undefined
  #listener: Abortable | undefined

  /**
   * Undefined if the call was not aborted. An `Http1Error` if the request ended early, a `Problem` if the request
   * arrived too slowly, and another `Error` if the connection was closed.
   */
  get reason(): Error | undefined {
    return this.#reason
  }

  /** Replaces the listener. If the call is already aborted, the new listener is not called: check `reason` first. */
  listen(listener: Abortable): void {
    this.#listener = listener
  }

  /** Must be called when the work of the listener has ended. */
  stopListening(): void {
    this.#listener = undefined
  }

  abort(reason: Error): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#listener?.abort(reason)
  }
}
