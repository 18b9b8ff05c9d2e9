/**
 * The pipeline: the steps of one call in the order that the contract promises (1.2). A step rejects the
 * call by throwing a `Problem`.
 */
import type { Contract } from '../../shared/contract/contract.ts'
import { REFUSAL_HEADER } from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { continueTrace, createSpanId } from '../../shared/process/trace.ts'
import type { Tracing } from '../../shared/process/tracing.ts'
import type { Body, Call } from '../call/call.ts'
import { recordStep } from '../call/call-record.ts'
import { clientAddress, clientNetwork } from '../downstream/client-address.ts'
import { Listener, type ListenerOptions } from '../downstream/listener.ts'
import { BODY_BYTES_MAX, mayFit, NO_BODY } from '../downstream/request-body.ts'
import type { Response } from '../downstream/response.ts'
import type { BodyFraming } from '../http1/body-decoder.ts'
import { fieldValue } from '../http1/fields.ts'
import type { RequestHead } from '../http1/request-head.ts'
import type { Authenticator, Credential } from '../keys/authenticator.ts'
import type { KnownKey } from '../keys/look-up.ts'
import type { AccessLog } from '../observability/access-log.ts'
import type { FinishedCall, UsageReporter } from '../observability/usage-reporter.ts'
import type { PageRoute } from '../pages/page-route.ts'
import type { PagesProxy } from '../pages/proxy.ts'
import { rateLimitHeaders } from '../rate-limit/headers.ts'
import type { RateLimiter } from '../rate-limit/limiter.ts'
import type { Flow } from '../upstream/admission.ts'
import type { Forwarder } from '../upstream/forward.ts'
import { allowanceToShow, applyLimit, countedAllowance } from './allowance.ts'
import { createAddressCheck } from './allowed-address.ts'
import { decide } from './decide.ts'
import { createRouter, type Routing } from './route.ts'
import { toClient, toUpstream } from './translate.ts'

/** A call whose principal the backend rejects more often than this is answered with 503. */
const PRINCIPAL_REJECTIONS_MAX = 2

type FromListener =
  | 'baseUrl'
  | 'tls'
  | 'requestTimeoutMs'
  | 'responseTimeoutMs'
  | 'bodyRateMin'
  | 'connectionAgeMs'
  | 'budget'
  | 'trustedProxies'
  | 'log'

export interface GatewayDependencies extends Pick<ListenerOptions, FromListener> {
  readonly contract: Contract
  readonly authenticator: Authenticator
  readonly rateLimiter: RateLimiter
  readonly forwarder: Forwarder
  readonly pages: PagesProxy
  readonly usage: UsageReporter
  readonly accessLog: AccessLog
  /** Undefined: traces are propagated but not exported. */
  readonly tracing: Tracing | undefined
}

export function createGateway(dependencies: GatewayDependencies): Listener {
  const { authenticator, rateLimiter, forwarder, pages, log } = dependencies
  const { usage, accessLog, tracing } = dependencies
  const addresses = createAddressCheck(dependencies.trustedProxies, authenticator)
  const route = createRouter(dependencies.contract)

  function serve(head: RequestHead, call: Call): Promise<Response> | Response {
    call.record.trace = traceOf(head) ?? tracing?.begin()
    if (head.path === '/api/v1' || head.path.startsWith('/api/v1/')) return serveApi(head, call)
    if (head.path === '/') return redirectToDocs(head)
    const route = pages.routeOf(head.path)
    if (route !== undefined) return servePage(pages, route, head, call)
    throw new Problem('route_not_found', `There is nothing at ${head.path}.`)
  }

  async function serveApi(head: RequestHead, call: Call): Promise<Response> {
    // Matched first for the log and the metrics; `decide` acts on the result after authentication.
    const routing = route(head)
    if ('operationId' in routing) call.record.operation = routing
    const credential = authenticator.readCredential(head.headers.get('authorization'))
    const { digest, cached } = credential
    call.isKeyKnown = cached !== undefined
    call.rateLimited = cached
    const body = head.framing ? await readBody(head, head.framing, BODY_BYTES_MAX, call) : NO_BODY
    let key =
      authenticator.findCached(credential) ?? (await lookUp(dependencies, credential, head, call))
    recordKey(call, key)
    call.rateLimited = key
    // Not counted: otherwise somebody who found the key could use up its limit from anywhere.
    if (!addresses.isAllowed(key, head, call)) key = await addresses.confirm(digest, head, call)
    // Shed before it is counted, so that a call that could not be served costs the key nothing.
    const flow = forwarder.admit(key.keyId)
    try {
      const allowance = rateLimiter.consume(key.keyId, key.rateLimit)
      call.allowance = await recordStep(call.record, 'consume rate limit', allowance)
    } finally {
      flow.leave()
    }
    // `return await` costs two turns less than to return the promise.
    return await decideAndForward({ head, call, digest, flow, body, routing }, key)
  }

  /**
   * A cached key may be used to forward, since the backend decides again on every call. Before the
   * gateway itself rejects a call, a look-up that began after the call arrived confirms the key.
   */
  async function decideAndForward(read: ReadCall, cached: KnownKey): Promise<Response> {
    const { head, call, digest, flow, body, routing } = read
    let key = cached
    for (let rejections = 0; rejections < PRINCIPAL_REJECTIONS_MAX; ) {
      const decision = decide(routing, body, key, call.allowance)
      if (decision.kind === 'forward') {
        const spanId = call.record.trace && createSpanId()
        const request = toUpstream(head, decision.operation, decision.body, key, {
          requestId: call.requestId,
          trace: call.record.trace,
          spanId,
          flow,
          address: key.allowedAddresses && addresses.addressOf(head, call),
        })
        const forwarding = forwarder.forward(request, call.abort, call.record)
        const response = await recordStep(call.record, 'forward', forwarding, spanId)
        const reason = fieldValue(response.headers, REFUSAL_HEADER)
        if (reason === undefined) {
          call.forwarded = true
          return toClient(head, response)
        }
        rejections++
        log.info({ requestId: call.requestId, keyId: key.keyId, reason }, 'principal rejected')
        if (reason === 'key_expired') authenticator.rejectExpired(digest)
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
    log.error({ keyId: key.keyId }, 'backend rejects fresh principals: compare clocks and secrets')
    throw keyUndecided()
  }

  return new Listener({
    ...dependencies,
    recordsSteps: tracing !== undefined,
    serve,
    commonHeaders: (call, status) =>
      rateLimitHeaders(call && allowanceToShow(rateLimiter, call, status)),
    onInvalidHead: (call, fields) => recordCachedKey(authenticator, call, fields),
    onResponse: (call, status) => usage.record(finishedCall(call, status), status),
    onSettled: accessLog.logCall,
    onRejectedBytes: accessLog.logRejectedBytes,
  })
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

function recordKey({ record }: Call, { keyId, accountId }: KnownKey): void {
  record.keyId = keyId
  record.accountId = accountId
}

function keyUndecided(): Problem {
  return new Problem('service_unavailable', 'The key cannot be checked at present. Try again.', {
    headers: { 'retry-after': '1' },
  })
}

function traceOf({ headers }: RequestHead) {
  return continueTrace(headers.get('traceparent'), headers.get('tracestate'))
}

/** For the headers of the response. */
function recordCachedKey(
  authenticator: Authenticator,
  call: Call,
  fields: readonly string[],
): void {
  call.rateLimited = authenticator.peek(fieldValue(fields, 'authorization'))
}

function finishedCall(call: Call, status: number): FinishedCall {
  const { keyId, code } = call.record
  return { keyId, code, forwarded: call.forwarded, allowance: countedAllowance(call, status) }
}

/** A call whose body was read and whose key is known. */
interface ReadCall {
  readonly head: RequestHead
  readonly call: Call
  readonly digest: string
  readonly flow: Flow
  readonly body: Body
  readonly routing: Routing
}

async function servePage(
  pages: PagesProxy,
  route: PageRoute,
  head: RequestHead,
  call: Call,
): Promise<Response> {
  const { methods, bodyBytesMax = BODY_BYTES_MAX } = route
  if (!methods.includes(head.method)) {
    const allow = methods.join(', ')
    const detail = `The path ${head.path} takes ${allow}, not ${head.method}.`
    throw new Problem('method_not_allowed', detail, { headers: { allow } })
  }
  const { requestId, record, abort } = call
  record.operation = { operationId: 'pages', path: `/${head.path.split('/', 2)[1]}/*` }
  const body = head.framing ? await readBody(head, head.framing, bodyBytesMax, call) : NO_BODY
  if (body === 'tooLarge') {
    throw new Problem('payload_too_large', `The body is over ${bodyBytesMax} bytes.`, {
      members: { max_bytes: bodyBytesMax },
    })
  }
  return pages.forward({ head, route, body, requestId, record, abort })
}

function readBody(
  { expectsContinue }: RequestHead,
  framing: BodyFraming,
  bytesMax: number,
  call: Call,
): Promise<Body> {
  return call.readBody(framing, bytesMax, expectsContinue && mayFit(framing, bytesMax))
}

function redirectToDocs({ method }: RequestHead): Response {
  if (method !== 'GET' && method !== 'HEAD') {
    throw new Problem('method_not_allowed', 'Only GET and HEAD here.', {
      headers: { allow: 'GET, HEAD' },
    })
  }
  return { status: 302, headers: ['location', '/docs', 'cache-control', 'no-store'], body: NO_BODY }
}
