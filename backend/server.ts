import { once } from 'node:events'
import { createServer } from 'node:http'
import { Server as NetServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { server as createHapi, type Server, type ServerRoute } from '@hapi/hapi'
import { BODY_BYTES_MAX, type Contract } from '../shared/contract/contract.ts'
import type { Logger } from '../shared/process/log.ts'
import type { Metrics } from '../shared/process/metrics.ts'
import type { Health } from '../shared/process/operations-listener.ts'
import type { Tracing } from '../shared/process/tracing.ts'
import { acceptWaitingConnections } from '../shared/process/waiting-connections.ts'
import { apiRoutes } from './api/routes.ts'
import { createLastUsed } from './api-keys/last-used.ts'
import type { Pepper } from './api-keys/peppers.ts'
import type { OpenDatabase } from './database/open.ts'
import { renderedDocs } from './docs/rendered-docs.ts'
import { docsRoutes } from './docs/routes.ts'
import { registerPrincipalStrategy } from './http/authentication.ts'
import { limitConnections } from './http/connections.ts'
import { admitGatewaysOnly } from './http/gateway-requests.ts'
import { respondWithProblems } from './http/problem-responses.ts'
import { observeRequests } from './http/requests.ts'
import { openSocketToGroup, removeStaleSocket } from './http/socket.ts'
import { inboundMailRoutes } from './inbound-mail/routes.ts'
import { internalRoutes } from './internal/routes.ts'
import type { MailServices } from './mail/mail-services.ts'
import { createRequestMetrics, measureInProcessQueues } from './metrics.ts'
import { OPERATIONS } from './operations.ts'
import { settingsRoutes } from './settings/routes.ts'
import { renderProblemPage } from './settings/shell/problem-page.ts'
import { addSecurityHeaders } from './settings/shell/security-headers.ts'
import { unsubscribeRoutes } from './unsubscribe/routes.ts'
import { countCalls } from './usage/counted-calls.ts'
import { usageRoutes } from './usage/routes.ts'
import { createUsage } from './usage/usage.ts'
import { createPasswords, type Passwords } from './users/passwords.ts'
import type { SecretBox } from './webhooks/secret-box.ts'
import type { WebhookServices } from './webhooks/webhooks.ts'

/** Longer than gateways keep idle connections, so that gateways close them first. */
const KEEP_ALIVE_MS = 75_000

/** How long a request may take to arrive. Gateways forward only requests that they have received completely. */
const REQUEST_MS_MAX = 30_000

/**
 * The maximum size of target and headers together. Gateways accept a target of 8 KiB and headers of 16 KiB, and add
 * their own headers. A smaller limit, such as the default of Node, would reject some of these requests with an empty
 * response, from which the gateway cannot know that nothing was done.
 */
const REQUEST_HEAD_BYTES_MAX = 32 * 1024

/** Less than the 10 s after which a process that should end is usually killed. */
const DRAIN_MS_MAX = 8000

/**
 * How long a drain keeps idle connections open, so that gateways close them first: gateways close idle connections to a
 * draining backend within 2 s, and any connection that was idle for 4 s.
 */
const DRAIN_GRACE_MS = 5000

/** How long the health check waits for the database; gateways wait 900 ms for its response. */
const PROBE_MS_MAX = 700

export interface BackendDeps {
  readonly host: string
  /** 0 chooses a free port. */
  readonly port: number
  /** The path of a Unix socket to listen on instead of the port. */
  readonly socket?: string | undefined
  readonly database: OpenDatabase
  readonly contract: Contract
  /** The public URL of the service, without a trailing slash. */
  readonly baseUrl: string
  readonly gatewaySecrets: readonly string[]
  readonly peppers: readonly Pepper[]
  readonly cursorKeys: readonly Buffer[]
  /** Encrypts the secrets of authenticator apps. */
  readonly secondFactorCipher: SecretBox
  /** Tests pass an instance with cheaper hashes. */
  readonly passwords?: Passwords
  /** If absent, there are no pages for webhooks. */
  readonly webhooks?: WebhookServices
  /** If absent, there are no routes for mail, and Settings mails no invitations, links for new passwords or notices. */
  readonly mailServices?: MailServices
  readonly clock: () => Date
  readonly log: Logger
  readonly metrics: Metrics
  readonly tracing: Tracing | undefined
  /** How long a drain waits for connections to be closed and calls to end, including `drainGraceMs`. */
  readonly drainMsMax?: number
  /** How long a drain keeps idle connections open; 0 if no call can be in transit anymore. */
  readonly drainGraceMs?: number
}

export interface Backend {
  /** 0 if the server listens on a socket. */
  readonly port: number
  health(): Promise<Health>
  /** Writes the collected times of the keys' last use now. */
  flushLastUsed(): Promise<void>
  /**
   * Refuses connections that are opened from now on, and finishes the calls on the open ones, including calls in
   * transit. The database remains open.
   */
  drain(): Promise<void>
}

/** The server is listening when the promise resolves. */
export async function createBackend(deps: BackendDeps): Promise<Backend> {
  const { database, baseUrl, log } = deps
  const lastUsed = createLastUsed(database, log)
  const usage = createUsage(database, log)
  const { passwords = createPasswords() } = deps
  const requestMetrics = createRequestMetrics(deps.metrics)
  measureInProcessQueues(deps.metrics, { lastUsed, usage, passwords })
  let draining = false

  async function health(): Promise<Health> {
    const mailError = deps.mailServices?.lastError()
    const degraded = [
      ...describeFaults(database),
      ...(mailError === undefined ? [] : [`mail: ${mailError}`]),
      ...(connectionLimit.wasReachedRecently() ? ['connections of gateways are refused'] : []),
    ]
    if (draining) return { unready: ['draining'], degraded }
    const probe = database.read.selectFrom('accounts').select('id').limit(1).execute()
    const reason = await Promise.race([
      probe.then(
        () => undefined,
        () => 'the database cannot be read',
      ),
      delay(PROBE_MS_MAX, 'the database does not respond', { ref: false }),
    ])
    return { unready: reason === undefined ? [] : [reason], degraded }
  }

  const server = createServerFor(deps)
  const connectionLimit = limitConnections(server.listener, log)
  observeRequests(server, { metrics: requestMetrics, tracing: deps.tracing })
  admitGatewaysOnly(server, deps)
  respondWithProblems(server, { baseUrl, log, renderPage: renderProblemPage, ...requestMetrics })
  addSecurityHeaders(server, baseUrl)
  closeConnectionsWhile(server, () => draining)
  countCalls(server, usage, deps.clock)
  registerPrincipalStrategy(server, { ...deps, operations: OPERATIONS, lastUsed })
  server.route([
    ...internalRoutes({ ...deps, lastUsed, unreadiness: async () => (await health()).unready }),
    ...usageRoutes(deps),
    ...docsRoutes(() => renderedDocs(baseUrl)),
    ...settingsRoutes({
      ...deps,
      usage,
      flushLastUsed: lastUsed.flush,
      invitationCodes: deps.mailServices?.invitationCodes,
      resetCodes: deps.mailServices?.mailedCodes,
      noticeRouteOf: deps.mailServices?.noticeRouteOf,
      receivesReplies: deps.mailServices?.inboundSecrets !== undefined,
      passwords,
    }),
    ...(deps.mailServices === undefined ? [] : mailRoutes(deps.mailServices, deps)),
  ])
  server.route(apiRoutes({ ...deps, operations: OPERATIONS }))
  if (deps.socket !== undefined) await removeStaleSocket(deps.socket)
  await server.start()
  if (deps.socket !== undefined) await openSocketToGroup(deps.socket)
  return {
    port: deps.socket === undefined ? Number(server.info.port) : 0,
    health,
    flushLastUsed: lastUsed.flush,
    async drain() {
      draining = true
      const { drainMsMax = DRAIN_MS_MAX, drainGraceMs = DRAIN_GRACE_MS } = deps
      const endsAt = performance.now() + drainMsMax
      await drainConnections(server, Math.min(drainGraceMs, drainMsMax))
      await server.stop({ timeout: Math.max(0, endsAt - performance.now()) })
      await lastUsed.close().catch((error: unknown) => {
        log.warn({ err: error }, 'writing the last use of keys failed')
      })
      await usage.close().catch((error: unknown) => {
        log.warn({ err: error }, 'writing the usage of keys failed')
      })
    },
  }
}

function mailRoutes(
  { unsubscribeLinks, inboundSecrets }: MailServices,
  deps: BackendDeps,
): ServerRoute[] {
  return [
    ...unsubscribeRoutes({ ...deps, unsubscribeLinks }),
    ...inboundMailRoutes({ ...deps, inboundSecrets }),
  ]
}

/** During a drain, each response closes its connection, even if its request arrived before the drain. */
function closeConnectionsWhile(server: Server, isDraining: () => boolean): void {
  server.ext('onPreResponse', ({ raw }, h) => {
    if (isDraining()) raw.res.setHeader('connection', 'close')
    return h.continue
  })
}

/**
 * Accepts the connections that the operating system has opened already, and refuses later ones. Resolves when all
 * connections are closed, or after `graceMs`. hapi itself would close idle connections immediately: calls in transit on
 * them would be lost, and gateways could not know their outcome.
 */
async function drainConnections({ listener }: Server, graceMs: number): Promise<void> {
  const closed = once(listener, 'close')
  await acceptWaitingConnections([listener])
  // `close` of node:http would close idle connections as well.
  NetServer.prototype.close.call(listener)
  await Promise.race([closed, delay(graceMs, undefined, { ref: false })])
}

function createServerFor({ host, port, socket }: BackendDeps): Server {
  const listener = createServer({
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: REQUEST_MS_MAX,
    maxHeaderSize: REQUEST_HEAD_BYTES_MAX,
  })
  return createHapi({
    host,
    // The path of a Unix socket is passed as the port.
    port: socket ?? port,
    listener,
    debug: false,
    compression: false,
    routes: {
      cache: { otherwise: 'no-store' },
      response: { ranges: false },
      // Without this type, hapi would parse a body without a Content-Type as JSON. A hostile page can make a
      // browser send such a request.
      payload: { defaultContentType: 'application/octet-stream', maxBytes: BODY_BYTES_MAX },
      // The Settings pages parse their cookies themselves. hapi would reject a request because of a malformed cookie,
      // even one of another program.
      state: { parse: false, failAction: 'ignore' },
    },
  })
}

function describeFaults({ fault, clockFault }: OpenDatabase): string[] {
  return [
    ...(fault === undefined ? [] : [`database: ${fault.message}`]),
    ...(clockFault === undefined ? [] : [clockFault.message]),
  ]
}
