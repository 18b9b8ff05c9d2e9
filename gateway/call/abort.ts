/** Work for a call that can be aborted. */
export interface Abortable {
  abort(reason: Error): void
}

/**
 * Aborts the work for a call. One listener is enough, since the steps of a call run one after another. An
 * `AbortSignal` is not used, because `addEventListener` costs more than the rest of a step's bookkeeping.
 */
export class Abort {
  #reason: Error | undefined
  #listener: Abortable | undefined

  /**
   * The reason is undefined as long as the call is not aborted. It is an `Http1Error` or `Problem` if the
   * request broke off or arrived too slowly, and any other error if the client closed its connection.
   */
  get reason(): Error | undefined {
    return this.#reason
  }

  /** Replaces the listener. */
  listen(listener: Abortable | undefined): void {
    this.#listener = listener
  }

  abort(reason: Error): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#listener?.abort(reason)
  }
}
