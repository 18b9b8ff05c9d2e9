/** A call as operators see it when it is over: what the steps noted of it, as far as it got. */
import type { Operation } from '../../shared/contract/contract.ts'
import type { ProblemCode } from '../../shared/contract/problem.ts'
import { createSpanId, type Trace } from '../../shared/process/trace.ts'
import type { Head } from '../http1/request-head.ts'

export interface CallStory {
  /** Of the connection. */
  readonly address: string
  /** Undefined where it was refused. */
  head: Head | undefined
  trace: Trace | undefined
  /** Of the API, or `pages`. */
  operation: Pick<Operation, 'operationId' | 'path'> | undefined
  keyId: string | undefined
  accountId: string | undefined
  /** The backend that was asked last. */
  backend: string | undefined
  /** What backends took, all together. */
  upstreamMs: number
  /** Of the problem that the gateway answered itself. */
  code: ProblemCode | undefined
  /** Of the answer's body; of a large one as the connection counts it. */
  sentBytes: number
  /** Undefined: nobody wants them. */
  readonly steps: CallStep[] | undefined
}

/** A part of the call that waited for somebody. Times by `performance.now()`. */
export interface CallStep {
  readonly name: string
  readonly spanId: string
  readonly from: number
  readonly to: number
  readonly failed: boolean
}

export function createStory(address: string, notesSteps: boolean): CallStory {
  return {
    address,
    head: undefined,
    trace: undefined,
    operation: undefined,
    keyId: undefined,
    accountId: undefined,
    backend: undefined,
    upstreamMs: 0,
    code: undefined,
    sentBytes: 0,
    steps: notesSteps ? [] : undefined,
  }
}

/** Waits for `work`, and notes it as a step where steps are wanted. */
export function noteStep<T>(
  { steps }: CallStory,
  name: string,
  work: T | Promise<T>,
  spanId?: string,
): T | Promise<T> {
  if (steps === undefined || !(work instanceof Promise)) return work
  const from = performance.now()
  const note = (failed: boolean) => {
    const step = { name, spanId: spanId ?? createSpanId(), from, to: performance.now(), failed }
    steps.push(step)
  }
  work.then(
    () => note(false),
    () => note(true),
  )
  return work
}
