/**
 * The pipeline: what happens to one call, step by step, in the order that clients are promised
 * (contract 1.2). A step refuses by throwing a `Problem`.
 */
import type { Contract } from '../shared/contract.ts'
import { REFUSAL_HEADER } from '../shared/principal.ts'
import { Problem } from '../shared/problem.ts'
import type { Accounting } from './accounting.ts'
import type { Authenticator } from './authenticate.ts'
import { type Body, createBodies, isReadable } from './body.ts'
import { decide } from './decide.ts'
import type { Forwarder } from './forward.ts'
import type { KnownKey } from './key-look-up.ts'
import { type Call, Listener, type ListenerOptions, type Reply } from './listener.ts'
import type { Head } from './request-check.ts'
import { createRouter } from './route.ts'
import { type PagesProxy, pageMethods } from './settings-proxy.ts'
import { toClient, toUpstream } from './translate.ts'
import type { Usage } from './usage.ts'

/** A backend refuses a principal at most so often before we say that we cannot decide. */
const REFUSALS_MAX = 2

export interface GatewayDependencies extends Omit<ListenerOptions, 'serve' | 'onAnswered'> {
  readonly contract: Contract
  readonly authenticator: Authenticator
  readonly accounting: Accounting
  readonly forwarder: Forwarder
  /** Undefined: this gateway serves no pages. */
  readonly pages: PagesProxy | undefined
  readonly usage: Usage
}

export function createGateway(dependencies: GatewayDependencies): Listener {
  const { contract, authenticator, accounting, forwarder, pages, usage, log } = dependencies
  const route = createRouter(contract)
  const bodies = createBodies()

  /** The head is checked already: the listener does that first. */
  async function serve(head: Head, call: Call): Promise<Reply> {
    if (head.path === '/api/v1' || head.path.startsWith('/api/v1/')) return serveApi(head, call)
    if (head.path === '/') return redirectToDocs(head)
    const methods = pages === undefined ? undefined : pageMethods(head.path)
    if (pages !== undefined && methods !== undefined) return servePage(pages, methods, head, call)
    throw new Problem('route_not_found', `There is nothing at ${head.path}.`)
  }

  async function serveApi(head: Head, call: Call): Promise<Reply> {
    const digest = authenticator.readCredential(head.headers.get('authorization'))
    const body = await readBody(head, call)
    try {
      const key = await authenticator.identify(digest)
      call.keyId = key.keyId
      call.allowance = await accounting.spend(key.keyId, key.rateLimit)
      return await decideAndForward(head, call, digest, body, key)
    } finally {
      bodies.release(body)
    }
  }

  /**
   * A remembered key may be used to forward, for the backend decides again on every call. Before the
   * gateway itself refuses, a look-up that began after the call arrived confirms the key.
   */
  async function decideAndForward(
    head: Head,
    call: Call,
    digest: string,
    body: Body,
    remembered: KnownKey,
  ): Promise<Reply> {
    const routing = route(head)
    let key = remembered
    for (let refusals = 0; refusals < REFUSALS_MAX; ) {
      const decision = decide(routing, body, key, call.allowance)
      if (decision.kind === 'forward') {
        const request = toUpstream(head, decision.operation, decision.body, key, call.requestId)
        const answer = await forwarder.forward(request, call.abort.signal)
        const refusal = answer.headers[REFUSAL_HEADER]
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

  async function servePage(
    { forward }: PagesProxy,
    methods: readonly string[],
    head: Head,
    call: Call,
  ): Promise<Reply> {
    if (!methods.includes(head.method)) {
      const allow = methods.join(', ')
      const detail = `${head.path} takes ${allow}, not ${head.method}.`
      throw new Problem('method_not_allowed', detail, { headers: { allow } })
    }
    const body = await readBody(head, call)
    try {
      if (body === 'tooLarge') throw new Problem('payload_too_large', 'The form is too large.')
      return await forward({ ...call, head, body })
    } finally {
      bodies.release(body)
    }
  }

  function readBody(head: Head, call: Call): Promise<Body> {
    if (head.expectsContinue && isReadable(head.framing)) {
      call.res.writeContinue()
      call.saidContinue = true
    }
    return bodies.read(call.req, head.framing, call.abort.signal)
  }

  return new Listener({ ...dependencies, serve, onAnswered: usage.note })
}

function redirectToDocs({ method }: Head): Reply {
  if (method !== 'GET' && method !== 'HEAD') {
    throw new Problem('method_not_allowed', 'Only GET and HEAD here.', {
      headers: { allow: 'GET, HEAD' },
    })
  }
  return { status: 302, headers: ['location', '/docs', 'cache-control', 'no-store'], body: '' }
}
