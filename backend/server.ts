/**
 * The backend's server: who is admitted, who calls, the routes, how errors are answered. Handlers
 * are thin; what a subject means is in its own folder.
 */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { Server as NetServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { server as createHapi, type Server, type ServerRoute } from '@hapi/hapi'
import type { Contract } from '../shared/contract/contract.ts'
import type { Logger } from '../shared/process/log.ts'
import type { Metrics } from '../shared/process/metrics.ts'
import type { Health } from '../shared/process/operations.ts'
import type { Tracing } from '../shared/process/tracing.ts'
import { apiRoutes } from './api/routes.ts'
import { createLastUsed } from './api-keys/last-used.ts'
import type { Pepper } from './api-keys/peppers.ts'
import type { OpenDatabase } from './database/open.ts'
import { docsRoutes } from './docs/routes.ts'
import { registerPrincipalStrategy } from './http/authentication.ts'
import { admitGatewaysOnly } from './http/gateway-requests.ts'
import { answerProblems } from './http/problem-responses.ts'
import { observeRequests } from './http/requests.ts'
import { makeWayForSocket, openSocketToGroup } from './http/socket.ts'
import { inboundMailRoutes } from './inbound-mail/routes.ts'
import { internalRoutes } from './internal/routes.ts'
import type { PostOffice } from './mail/post-office.ts'
import { createRequestNumbers, measureParts } from './metrics.ts'
import { OPERATIONS } from './operations.ts'
import { settingsRoutes } from './settings/routes.ts'
import { renderProblemPage } from './settings/shell/problem-page.ts'
import { addSecurityHeaders } from './settings/shell/security-headers.ts'
import { unsubscribeRoutes } from './unsubscribe/routes.ts'
import { countCalls } from './usage/counted-calls.ts'
import { usageRoutes } from './usage/routes.ts'
import { createUsage } from './usage/usage.ts'
import { createPasswords } from './users/passwords.ts'
import type { WebhookServices } from './webhooks/webhooks.ts'

/** Longer than gateways keep connections idle, so that it is never this side that closes first. */
const KEEP_ALIVE_MS = 75_000

/** The gateway has the whole request before it sends it: a slow one is none of ours. */
const REQUEST_MS_MAX = 30_000

/** What `drain` waits for calls under way; with the grace under the 10 s that a process usually has. */
const DRAIN_MS_MAX = 8000

/** How long idle connections stay open in a drain: calls on their way arrive well within. */
const DRAIN_GRACE_MS = 500

/** What health waits for the database; gateways, who ask, wait for 900 ms. */
const PROBE_MS_MAX = 700

/** Largest body of an API call: 256 KiB, as at the gateway. */
const BODY_BYTES_MAX = 262_144

export interface BackendDeps {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** A path to listen on instead. */
  readonly socket?: string | undefined
  readonly database: OpenDatabase
  readonly contract: Contract
  /** Public address of the service, no slash at its end. */
  readonly baseUrl: string
  readonly gatewaySecrets: readonly string[]
  readonly peppers: readonly Pepper[]
  readonly cursorKey: Buffer
  /** Absent: no pages for webhooks. */
  readonly webhooks?: WebhookServices
  /** Absent: no routes for mail. */
  readonly postOffice?: PostOffice
  readonly clock: () => Date
  readonly log: Logger
  readonly metrics: Metrics
  /** Undefined: requests leave no traces. */
  readonly tracing: Tracing | undefined
  /** For calls under way when the process is to end. */
  readonly drainMsMax?: number
  /** 0 where no call can be on its way any more. */
  readonly drainGraceMs?: number
}

export interface Backend {
  /** 0 where it listens on a socket. */
  readonly port: number
  health(): Promise<Health>
  /** Writes the gathered last uses of keys now, not in a few seconds. */
  flushLastUsed(): Promise<void>
  /** Finishes the calls under way, takes no more. The database stays open. */
  drain(): Promise<void>
}

/** Listens when the promise resolves. */
export async function createBackend(deps: BackendDeps): Promise<Backend> {
  const { database, baseUrl, log } = deps
  const lastUsed = createLastUsed(database, log)
  const usage = createUsage(database, log)
  const passwords = createPasswords()
  const numbers = createRequestNumbers(deps.metrics)
  measureParts(deps.metrics, { lastUsed, usage, passwords })
  let draining = false

  async function health(): Promise<Health> {
    const mailFault = deps.postOffice?.fault()
    const degraded = [
      ...(database.fault === undefined ? [] : [`database: ${database.fault.message}`]),
      ...(mailFault === undefined ? [] : [`mail: ${mailFault}`]),
    ]
    if (draining) return { unready: ['draining'], degraded }
    const probe = database.read.selectFrom('accounts').select('id').limit(1).execute()
    const reason = await Promise.race([
      probe.then(
        () => undefined,
        () => 'the database cannot be read',
      ),
      delay(PROBE_MS_MAX, 'the database does not answer', { ref: false }),
    ])
    return { unready: reason === undefined ? [] : [reason], degraded }
  }

  const server = createServerFor(deps)
  observeRequests(server, { numbers, tracing: deps.tracing })
  admitGatewaysOnly(server, deps)
  answerProblems(server, { baseUrl, log, renderPage: renderProblemPage, ...numbers })
  addSecurityHeaders(server, baseUrl)
  countCalls(server, usage, deps.clock)
  registerPrincipalStrategy(server, { ...deps, lastUsed })
  server.route([
    ...internalRoutes({ ...deps, lastUsed, unreadiness: async () => (await health()).unready }),
    ...usageRoutes(deps),
    ...docsRoutes(baseUrl),
    ...settingsRoutes({
      ...deps,
      usage,
      mailedInvitations: deps.postOffice?.mailedInvitations,
      passwords,
    }),
    ...(deps.postOffice === undefined ? [] : mailRoutes(deps.postOffice, deps)),
  ])
  server.route(apiRoutes({ ...deps, operations: OPERATIONS }))
  if (deps.socket !== undefined) await makeWayForSocket(deps.socket)
  await server.start()
  if (deps.socket !== undefined) await openSocketToGroup(deps.socket)
  return {
    port: deps.socket === undefined ? Number(server.info.port) : 0,
    health,
    flushLastUsed: lastUsed.flush,
    async drain() {
      draining = true
      await closeToNewConnections(server, deps.drainGraceMs ?? DRAIN_GRACE_MS)
      await server.stop({ timeout: deps.drainMsMax ?? DRAIN_MS_MAX })
      await lastUsed.close().catch((error: unknown) => {
        log.warn({ err: error }, 'last use of keys not written')
      })
      await usage.close().catch((error: unknown) => {
        log.warn({ err: error }, 'usage of keys not written')
      })
    },
  }
}

function mailRoutes({ links, inboundSecrets }: PostOffice, deps: BackendDeps): ServerRoute[] {
  return [
    ...unsubscribeRoutes({ ...deps, links }),
    ...inboundMailRoutes({ ...deps, inboundSecrets }),
  ]
}

/**
 * hapi drops idle connections at once, and with them calls that are on their way: a gateway could not
 * tell what became of those. First each answer ends its connection, and new ones are refused.
 */
async function closeToNewConnections({ listener }: Server, graceMs: number): Promise<void> {
  listener.prependListener('request', (_request, response: ServerResponse) => {
    response.setHeader('connection', 'close')
  })
  const closed = once(listener, 'close')
  // Not `close` of node:http, which drops them as well.
  NetServer.prototype.close.call(listener)
  await Promise.race([closed, delay(graceMs)])
}

function createServerFor({ host, port, socket }: BackendDeps): Server {
  const listener = createServer({
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: REQUEST_MS_MAX,
  })
  return createHapi({
    host,
    // A path is a Unix socket's.
    port: socket ?? port,
    listener,
    debug: false,
    compression: false,
    routes: {
      cache: { otherwise: 'no-store' },
      response: { ranges: false },
      // Without a type hapi would take a body for JSON, which a browser can be made to send.
      payload: { defaultContentType: 'application/octet-stream', maxBytes: BODY_BYTES_MAX },
      state: { parse: false, failAction: 'ignore' },
    },
  })
}
