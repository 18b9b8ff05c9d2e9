/** Work of a call, such as reading its body. The work can be aborted. */
export interface Abortable {
  abort(reason: Error): void
}

/**
 * Aborts the work of a call. The work in progress is registered as the listener. One listener is enough, since the
 * steps of a call run one after another. An `AbortSignal` would be slower: its `addEventListener` takes more CPU time
 * than all other bookkeeping of a step.
 */
export class Abort {
  #reason: Error | undefined
  #listener: Abortable | undefined

  /**
   * The reason is undefined unless the call was aborted. It is an `Http1Error` if the request ended early, a
   * `Problem` if the request arrived too slowly, and another `Error` if the connection was closed.
   */
  get reason(): Error | undefined {
    return this.#reason
  }

  /** Replaces the listener. After the call was aborted, a new listener is not called: check `reason` first. */
  listen(listener: Abortable): void {
    this.#listener = listener
  }

  /** Removes the listener. To be called when its work has ended. */
  stopListening(): void {
    this.#listener = undefined
  }

  abort(reason: Error): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#listener?.abort(reason)
  }
}
