/**
 * The pipeline: what happens to one call, step by step, in the order that clients are promised
 * (contract 1.2). A step refuses by throwing a `Problem`.
 */
import type { Contract } from '../../shared/contract/contract.ts'
import { REFUSAL_HEADER } from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { continueTrace, createSpanId } from '../../shared/process/trace.ts'
import type { Tracing } from '../../shared/process/tracing.ts'
import { BODY_BYTES_MAX, type Bodies, type Body, isReadable, NO_BODY } from '../downstream/body.ts'
import { Listener, type ListenerOptions } from '../downstream/listener.ts'
import type { Reply } from '../downstream/response.ts'
import type { BodyFraming, Head } from '../http1/request-head.ts'
import type { Authenticator } from '../keys/authenticate.ts'
import type { KnownKey } from '../keys/look-up.ts'
import type { Access } from '../observability/access-log.ts'
import { noteStep } from '../observability/call-record.ts'
import type { Usage } from '../observability/usage.ts'
import type { PagesProxy, Place } from '../pages/proxy.ts'
import type { Accounting } from '../rate-limit/limiter.ts'
import type { Forwarder } from '../upstream/forward.ts'
import type { Call } from './call.ts'
import { decide } from './decide.ts'
import { createRouter, type Routing } from './route.ts'
import { headerOf, toClient, toUpstream } from './translate.ts'

/** A backend refuses a principal at most so often before we say that we cannot decide. */
const REFUSALS_MAX = 2

type FromListener = 'baseUrl' | 'tls' | 'requestTimeoutMs' | 'answerTimeoutMs' | 'log'

export interface GatewayDependencies extends Pick<ListenerOptions, FromListener> {
  readonly contract: Contract
  readonly bodies: Bodies
  readonly authenticator: Authenticator
  readonly accounting: Accounting
  readonly forwarder: Forwarder
  readonly pages: PagesProxy
  readonly usage: Usage
  readonly access: Access
  /** Undefined: traces are passed on, and none is kept here. */
  readonly tracing: Tracing | undefined
}

export function createGateway(dependencies: GatewayDependencies): Listener {
  const { authenticator, accounting, forwarder, pages, log } = dependencies
  const { usage, access, tracing } = dependencies
  const route = createRouter(dependencies.contract)

  /** The head is checked already: the listener does that first. */
  function serve(head: Head, call: Call): Promise<Reply> | Reply {
    const { headers } = head
    call.story.trace =
      continueTrace(headers.get('traceparent'), headers.get('tracestate')) ?? tracing?.begin()
    if (head.path === '/api/v1' || head.path.startsWith('/api/v1/')) return serveApi(head, call)
    if (head.path === '/') return redirectToDocs(head)
    const place = pages.placeAt(head.path)
    if (place !== undefined) return servePage({ pages, place }, head, call)
    throw new Problem('route_not_found', `There is nothing at ${head.path}.`)
  }

  async function serveApi(head: Head, call: Call): Promise<Reply> {
    // For the log and the numbers; it is acted on when the steps before it are done.
    const routing = route(head)
    if ('operationId' in routing) call.story.operation = routing
    const credential = authenticator.readCredential(head.headers.get('authorization'))
    const body = head.framing ? await readBody(head, head.framing, BODY_BYTES_MAX, call) : NO_BODY
    const identified = noteStep(call.story, 'look up key', authenticator.identify(credential))
    // To wait for what is there already costs a turn of the microtask queue.
    const key = identified instanceof Promise ? await identified : identified
    call.story.keyId = key.keyId
    call.story.accountId = key.accountId
    const spent = accounting.spend(key.keyId, key.rateLimit)
    call.allowance = await noteStep(call.story, 'spend', spent)
    // A promise that is returned as it is costs two more of them than one that is waited for.
    return await decideAndForward({ head, call, digest: credential.digest, body, routing }, key)
  }

  /**
   * A remembered key may be used to forward, for the backend decides again on every call. Before the
   * gateway itself refuses, a look-up that began after the call arrived confirms the key.
   */
  async function decideAndForward(asked: AskedCall, remembered: KnownKey): Promise<Reply> {
    const { head, call, digest, body, routing } = asked
    let key = remembered
    for (let refusals = 0; refusals < REFUSALS_MAX; ) {
      const decision = decide(routing, body, key, call.allowance)
      if (decision.kind === 'forward') {
        const spanId = call.story.trace && createSpanId()
        const request = toUpstream(head, decision.operation, decision.body, key, {
          requestId: call.requestId,
          trace: call.story.trace,
          spanId,
        })
        const answered = forwarder.forward(request, call.abort, call.story)
        const answer = await noteStep(call.story, 'forward', answered, spanId)
        const refusal = headerOf(answer.headers, REFUSAL_HEADER)
        if (refusal === undefined) {
          call.forwarded = true
          return toClient(head, answer)
        }
        refusals++
        log.info({ requestId: call.requestId, keyId: key.keyId, refusal }, 'principal refused')
        key = await authenticator.confirm(digest, performance.now())
      } else if (key.lookedUpAt >= call.arrivedAt) {
        if (decision.kind === 'refuse') throw decision.problem
        return decision.reply
      } else {
        const confirmed = await authenticator.confirm(digest, call.arrivedAt)
        // A raised limit holds from the next call, also for the key that has just reached the old one.
        if (confirmed.rateLimit !== key.rateLimit) {
          call.allowance = await accounting.spend(confirmed.keyId, confirmed.rateLimit)
        }
        key = confirmed
      }
    }
    log.error({ keyId: key.keyId }, 'backend refuses fresh principals: compare clocks and secrets')
    throw new Problem('service_unavailable', 'The key cannot be checked at present. Try again.', {
      headers: { 'retry-after': '1' },
    })
  }

  return new Listener({
    ...dependencies,
    notesSteps: tracing !== undefined,
    serve,
    onAnswered({ story, allowance, forwarded }, status) {
      // Whoever turned out to be nobody has no usage.
      if (story.keyId !== undefined)
        usage.note({ keyId: story.keyId, allowance, forwarded, code: story.code }, status)
    },
    onSettled: access.tell,
    onRefusedBytes: access.tellRefused,
  })
}

/** A call whose body is here and whose key was remembered or looked up. */
interface AskedCall {
  readonly head: Head
  readonly call: Call
  readonly digest: string
  readonly body: Body
  readonly routing: Routing
}

interface PageParts {
  readonly pages: PagesProxy
  readonly place: Place
}

async function servePage(parts: PageParts, head: Head, call: Call): Promise<Reply> {
  const { pages, place } = parts
  const { methods, bodyBytesMax = BODY_BYTES_MAX } = place
  if (!methods.includes(head.method)) {
    const allow = methods.join(', ')
    const detail = `The path ${head.path} takes ${allow}, not ${head.method}.`
    throw new Problem('method_not_allowed', detail, { headers: { allow } })
  }
  const { requestId, story, abort } = call
  story.operation = { operationId: 'pages', path: `/${head.path.split('/', 2)[1]}/*` }
  const body = head.framing ? await readBody(head, head.framing, bodyBytesMax, call) : NO_BODY
  if (body === 'tooLarge') {
    throw new Problem('payload_too_large', `The body is over ${bodyBytesMax} bytes.`, {
      members: { max_bytes: bodyBytesMax },
    })
  }
  return pages.forward({ head, body, requestId, story, abort })
}

function readBody(
  { expectsContinue }: Head,
  framing: BodyFraming,
  bytesMax: number,
  call: Call,
): Promise<Body> {
  call.saidContinue = expectsContinue && isReadable(framing, bytesMax)
  return call.connection.readBody(call, framing, bytesMax, call.saidContinue)
}

function redirectToDocs({ method }: Head): Reply {
  if (method !== 'GET' && method !== 'HEAD') {
    throw new Problem('method_not_allowed', 'Only GET and HEAD here.', {
      headers: { allow: 'GET, HEAD' },
    })
  }
  return { status: 302, headers: ['location', '/docs', 'cache-control', 'no-store'], body: NO_BODY }
}
