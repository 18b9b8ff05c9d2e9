/**
 * The pipeline runs the steps of one call. Their order, which is documented, decides which error a call gets if several
 * apply.
 */
import { clientNetwork } from '../../shared/contract/client-network.ts'
import type { Contract } from '../../shared/contract/contract.ts'
import { PRINCIPAL_REJECTION_HEADER } from '../../shared/contract/principal.ts'
import { Problem, temporarilyUnavailable } from '../../shared/contract/problem.ts'
import { continueTrace, createSpanId } from '../../shared/process/trace.ts'
import type { Tracing } from '../../shared/process/tracing.ts'
import type { Body, BodyLimits, Call } from '../call/call.ts'
import { recordStep } from '../call/call-record.ts'
import { clientAddress } from '../downstream/client-address.ts'
import { Listener, type ListenerOptions } from '../downstream/listener.ts'
import { CALL_BODY_LIMITS, mayFit, NO_BODY } from '../downstream/request-body.ts'
import type { Outcome, Response } from '../downstream/response.ts'
import type { BodyFraming } from '../http1/body-decoder.ts'
import { fieldValue } from '../http1/fields.ts'
import type { RequestHead } from '../http1/request-head.ts'
import type { Authenticator, Credential } from '../keys/authenticator.ts'
import type { KnownKey } from '../keys/look-up.ts'
import type { AccessLog } from '../observability/access-log.ts'
import type { FinishedCall, UsageReporter } from '../observability/usage-reporter.ts'
import type { PageRoute } from '../pages/page-route.ts'
import { formTooLarge } from '../pages/problem-page.ts'
import type { PagesProxy } from '../pages/proxy.ts'
import { rateLimitHeaders } from '../rate-limit/headers.ts'
import type { RateLimiter } from '../rate-limit/limiter.ts'
import type { Forwarder } from '../upstream/forward.ts'
import { allowanceToReport, allowanceToShow, applyLimit } from './allowance.ts'
import { type AddressCheck, createAddressCheck } from './allowed-address.ts'
import { decide } from './decide.ts'
import { createRouter, type Router, type Routing } from './route.ts'
import { toClient, toUpstream } from './translate.ts'

/** A call whose principal the backend rejects this many times, although the key is unchanged, gets 503. */
const PRINCIPAL_REJECTIONS_MAX = 2
/** A call during which the key or its account changes this many times gets 503. */
const CHANGES_MAX = 5

type PassedToListener =
  | 'baseUrl'
  | 'tls'
  | 'requestTimeoutMs'
  | 'responseTimeoutMs'
  | 'bodyRateMin'
  | 'connectionAgeMs'
  | 'budget'
  | 'trustedProxies'
  | 'log'

export interface GatewayDependencies extends Pick<ListenerOptions, PassedToListener> {
  readonly contract: Contract
  readonly authenticator: Authenticator
  readonly rateLimiter: RateLimiter
  readonly forwarder: Forwarder
  readonly pages: PagesProxy
  readonly usage: UsageReporter
  readonly accessLog: AccessLog
  /** If undefined, traces are propagated but not exported. */
  readonly tracing: Tracing | undefined
}

export function createGateway(dependencies: GatewayDependencies): Listener {
  const { authenticator, rateLimiter, pages, usage, accessLog, tracing } = dependencies
  const router = createRouter(dependencies.contract)
  const serveApi = createApi(dependencies, router)

  function serve(head: RequestHead, call: Call): Promise<Outcome> | Outcome {
    call.record.trace = traceOf(head) ?? tracing?.begin()
    if (head.path === '/api/v1' || head.path.startsWith('/api/v1/')) return serveApi(head, call)
    if (head.path === '/') return redirectToDocs(head)
    const route = pages.routeOf(head.path)
    if (route !== undefined) return servePage(pages, route, head, call)
    throw new Problem('route_not_found', `There is nothing at ${head.path}.`)
  }

  function allowedMethods(path: string): string | undefined {
    if (path === '/') return DOCS_REDIRECT_METHODS
    return pages.routeOf(path)?.methods.join(', ') ?? router.allowedMethods(path)
  }

  return new Listener({
    ...dependencies,
    recordsSteps: tracing !== undefined,
    serve,
    problemPage: (problem, { record, requestId }) =>
      record.head && pages.problemPage(problem, record.head, requestId),
    rateLimitHeaders: (call, status) =>
      rateLimitHeaders(call && allowanceToShow(rateLimiter, call, status)),
    allowedMethods,
    onInvalidHead: (call, fields) => recordCachedKey(authenticator, call, fields),
    onResponse: (call, status) => usage.record(finishedCall(call, status), status),
    onSettled: accessLog.recordCall,
    onInvalidRequest: accessLog.recordInvalidRequest,
  })
}

function createApi(dependencies: GatewayDependencies, router: Router) {
  const { authenticator, rateLimiter, forwarder } = dependencies
  const addresses = createAddressCheck(dependencies.trustedProxies, authenticator)
  const decideAndForward = createDecideAndForward(dependencies, addresses)

  /**
   * This function is not async, and returns the problem of a shed call (rejected because of overload) instead of
   * throwing it. Under overload, most calls are shed here, and a promise or a thrown error would take more time.
   */
  function serveWithKey(received: ReceivedCall): Promise<Outcome> | Problem {
    const { head, call, credential } = received
    const key = authenticator.findCached(credential)
    if (key === undefined) return lookUpAndServe(received)
    recordKey(call, key)
    if (!addresses.isAllowed(key, head, call)) return confirmAndServe(received)
    return admitAndForward(received, key)
  }

  async function lookUpAndServe(received: ReceivedCall): Promise<Outcome> {
    const { head, call, credential } = received
    const key = await lookUp(dependencies, credential, head, call)
    recordKey(call, key)
    if (!addresses.isAllowed(key, head, call)) return await confirmAndServe(received)
    return await admitAndForward(received, key)
  }

  /**
   * Handles a call from an address that the key, as last looked up, does not allow. The call is rejected if a look-up
   * that began after its arrival confirms this. Such a call is not counted, because a person who has stolen the key
   * could otherwise use up its limit.
   */
  async function confirmAndServe(received: ReceivedCall): Promise<Outcome> {
    const key = await addresses.confirm(received.credential.digest, received.head, received.call)
    return await admitAndForward(received, key)
  }

  /** A call is counted only after it was admitted, so that a shed call does not count. */
  function admitAndForward(received: ReceivedCall, key: KnownKey): Promise<Response> | Problem {
    const turn = forwarder.admit(key, received.call.abort)
    if (turn instanceof Problem) return turn
    return turn === undefined ? countAndForward(received, key) : waitAndForward(received, key, turn)
  }

  async function waitAndForward(received: ReceivedCall, key: KnownKey, turn: Promise<void>) {
    await recordStep(received.call.record, 'wait for a connection', turn)
    return await countAndForward(received, key)
  }

  async function countAndForward(received: ReceivedCall, key: KnownKey): Promise<Response> {
    const { call } = received
    let responding: Promise<Response>
    try {
      const allowance = rateLimiter.consume(key.keyId, key.rateLimit)
      call.allowance = await recordStep(call.record, 'consume rate limit', allowance)
      responding = decideAndForward(received, key)
    } finally {
      // A call that needs no further look-up has been sent by now, so it no longer needs its reserved connection. Any
      // other call waits for its look-up without one.
      forwarder.release()
    }
    // `return await` takes two microtasks fewer than returning the promise.
    return await responding
  }

  return function serveApi(head: RequestHead, call: Call): Promise<Outcome> | Problem {
    // The route is matched first, because the log and the metrics need it even if authentication fails.
    const routing = router.route(head)
    if ('operationId' in routing) call.record.operation = routing
    const credential = authenticator.readCredential(head.headers.get('authorization'))
    const { cached } = credential
    call.isKeyKnown = cached !== undefined
    call.keyForLimitHeaders = cached
    const serveReceived = (body: Body) => serveWithKey({ head, call, credential, body, routing })
    if (head.framing === undefined) return serveReceived(NO_BODY)
    return readBody(head, head.framing, CALL_BODY_LIMITS, call).then(serveReceived)
  }
}

function createDecideAndForward(
  { authenticator, rateLimiter, forwarder, log }: GatewayDependencies,
  addresses: AddressCheck,
) {
  /**
   * Before the gateway responds to a call itself, it confirms the key and the client's address with a look-up that
   * began after the call arrived.
   */
  return async function decideAndForward(
    { head, call, credential, body, routing }: ReceivedCall,
    cached: KnownKey,
  ): Promise<Response> {
    const { digest } = credential
    let key = cached
    let rejections = 0
    let changes = 0
    while (rejections < PRINCIPAL_REJECTIONS_MAX && changes < CHANGES_MAX) {
      const decision = decide(routing, body, key, call.allowance)
      if (decision.kind === 'forward') {
        const spanId = call.record.trace && createSpanId()
        const request = toUpstream(head, decision.operation, decision.body, key, {
          requestId: call.requestId,
          trace: call.record.trace,
          spanId,
          address: key.allowedAddresses && addresses.addressOf(head, call),
        })
        const forwarding = forwarder.forward(request, call.abort, call.record)
        const response = await recordStep(call.record, 'forward', forwarding, spanId)
        const reason = fieldValue(response.headers, PRINCIPAL_REJECTION_HEADER)
        if (reason === undefined) {
          call.hasBackendResponse = true
          return toClient(request, response)
        }
        if (reason === 'revision_changed') changes++
        else rejections++
        log.info(
          { requestId: call.requestId, keyId: key.keyId, reason },
          'the backend rejected the principal',
        )
        if (reason === 'key_expired') return authenticator.rejectExpired(digest)
        // The look-up must begin now, because an earlier look-up may have read the key before it changed.
        key = await addresses.confirm(digest, head, call, performance.now())
      } else if (key.lookedUpAt >= call.arrivedAt) {
        if (decision.kind === 'reject') throw decision.problem
        return decision.response
      } else {
        const confirmed = await addresses.confirm(digest, head, call)
        if (confirmed.rateLimit !== key.rateLimit) await applyLimit(rateLimiter, call, confirmed)
        key = confirmed
      }
    }
    if (rejections === PRINCIPAL_REJECTIONS_MAX) {
      log.error(
        { keyId: key.keyId },
        'the backend rejects fresh principals: compare the clocks and secrets of gateway and backend',
      )
    }
    throw keyNotChecked()
  }
}

function lookUp(
  { authenticator, trustedProxies }: GatewayDependencies,
  credential: Credential,
  { headers }: RequestHead,
  { record }: Call,
): KnownKey | Promise<KnownKey> {
  const client = clientNetwork(clientAddress(record.address, headers, trustedProxies))
  return recordStep(record, 'look up key', authenticator.lookUp(credential, client))
}

function recordKey(call: Call, key: KnownKey): void {
  call.record.keyId = key.keyId
  call.record.accountId = key.accountId
  call.keyForLimitHeaders = key
}

function keyNotChecked(): Problem {
  return temporarilyUnavailable('The key cannot be checked at present. Try again.')
}

function traceOf({ headers }: RequestHead) {
  return continueTrace(headers.get('traceparent'), headers.get('tracestate'))
}

/** If the key is cached, the response headers show its limit. */
function recordCachedKey(
  authenticator: Authenticator,
  call: Call,
  fields: readonly string[],
): void {
  call.keyForLimitHeaders = authenticator.peek(fieldValue(fields, 'authorization'))
}

function finishedCall(call: Call, status: number): FinishedCall {
  const { keyId, code } = call.record
  const { hasBackendResponse } = call
  return { keyId, code, hasBackendResponse, allowance: allowanceToReport(call, status) }
}

/** A call whose body has been read. */
interface ReceivedCall {
  readonly head: RequestHead
  readonly call: Call
  readonly credential: Credential
  readonly body: Body
  readonly routing: Routing
}

async function servePage(
  pages: PagesProxy,
  route: PageRoute,
  head: RequestHead,
  call: Call,
): Promise<Response> {
  const { methods, bodyLimits = CALL_BODY_LIMITS } = route
  if (!methods.includes(head.method)) {
    const allow = methods.join(', ')
    const detail = `The path ${head.path} allows ${allow}, not ${head.method}.`
    throw new Problem('method_not_allowed', detail, { headers: { allow } })
  }
  const { requestId, record, abort } = call
  record.operation = { operationId: 'pages', path: `/${head.path.split('/', 2)[1]}/*` }
  const body = head.framing ? await readBody(head, head.framing, bodyLimits, call) : NO_BODY
  if (body === 'tooLarge') throw formTooLarge(bodyLimits)
  return pages.forward({ head, route, body, requestId, record, abort })
}

function readBody(
  { expectsContinue }: RequestHead,
  framing: BodyFraming,
  limits: BodyLimits,
  call: Call,
): Promise<Body> {
  return call.readBody(framing, limits, expectsContinue && mayFit(framing, limits))
}

const DOCS_REDIRECT_METHODS = 'GET, HEAD'

function redirectToDocs({ method }: RequestHead): Response {
  if (method !== 'GET' && method !== 'HEAD') {
    throw new Problem('method_not_allowed', 'This path allows only GET and HEAD.', {
      headers: { allow: DOCS_REDIRECT_METHODS },
    })
  }
  return { status: 302, headers: ['location', '/docs', 'cache-control', 'no-store'], body: NO_BODY }
}
