import type { Backend, Backends } from './backends.ts'

/**
 * Resolves with the result of the first successful attempt. If a backend is unreachable, the request is sent to another
 * backend, until there is no further one. If `send` rejects with `MovedToOtherBackend`, the request is sent to another
 * backend, or to the same one if there is no other. After any other failure, the request is retried at most once, on
 * another backend if there is one, and only if `mayRetry` allows it. Rejects with the error of the last attempt, or
 * with `Problem` 503 if no backend is known.
 */
export async function sendWithFailover<B extends Backend, T>(
  backends: Pick<Backends, 'size' | 'markUnreachable'> & {
    /** See `Backends.choose`. */
    choose(excluded?: Backend): B
  },
  send: (backend: B) => Promise<T>,
  mayRetry: (error: unknown) => boolean,
): Promise<T> {
  let backend = backends.choose()
  let unreachable = 0
  let isRetry = false
  for (;;) {
    try {
      return await send(backend)
    } catch (error) {
      if (isMoved(error)) {
        backend = backends.choose(backend)
      } else if (isUnreachable(error)) {
        backends.markUnreachable(backend)
        const next = backends.choose(backend)
        if (next === backend || ++unreachable >= backends.size) throw error
        backend = next
      } else {
        if (isRetry || !mayRetry(error)) throw error
        isRetry = true
        backend = backends.choose(backend)
      }
    }
  }
}

const MOVED = 'MOVED_TO_OTHER_BACKEND'

/**
 * The error of an attempt whose request is to be sent to another backend. A call that still waits for a connection is
 * moved if its backend is failing or not ready, or if another backend has an idle connection. An internal request, such
 * as a key look-up, is moved if its connection or its backend is assumed to be dead.
 */
export class MovedToOtherBackend extends Error {
  readonly code = MOVED
}

/** Whether the error is a `MovedToOtherBackend`, or an `AttemptFailed` with this cause. */
export function isMoved(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === MOVED
}

/** No connection to the backend could be opened, e.g. because its certificate is invalid. Nothing was sent to it. */
export class BackendUnreachable extends Error {
  /** The error code of the operating system, TLS or undici (which opens the connections), e.g. `ECONNREFUSED`. */
  readonly code: unknown

  constructor(error: Error) {
    super(error.message || error.name)
    this.code = 'code' in error ? error.code : undefined
  }
}

/** Whether the error, or its cause, is a `BackendUnreachable`. */
export function isUnreachable(error: unknown): boolean {
  if (error instanceof BackendUnreachable) return true
  return error instanceof Error && error.cause instanceof BackendUnreachable
}
