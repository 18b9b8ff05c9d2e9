/**
 * Mounts operations on the web framework. The contract decides their methods, paths and scopes. The process does not
 * start if the contract and `operations` do not contain the same operations.
 */
import assert from 'node:assert'
import type { Lifecycle, RouteOptions, ServerRoute } from '@hapi/hapi'
import { BODY_BYTES_MAX, type Contract } from '../../shared/contract/contract.ts'
import type { Database } from '../database/database.ts'
import { createIdempotency } from '../idempotency/idempotency.ts'
import type { Caller } from './caller.ts'
import type { Call, Finish, Operation, Services } from './operation.ts'

export interface ApiDeps {
  readonly database: Database
  readonly contract: Contract
  readonly operations: readonly Operation[]
  readonly clock: () => Date
  /** Without a trailing slash. */
  readonly baseUrl: string
  /** The keys for the cursors of lists: the first signs, and all verify. */
  readonly cursorKeys: readonly Buffer[]
}

/** The types of the request properties that authentication and the route options below determine. */
export interface ApiRefs {
  AuthCredentialsExtra: Caller
  /**
   * The function that the operation's `begin` returned; undefined for operations with `respond`. Authentication calls
   * `begin`, so that reading starts while the key is checked.
   */
  AuthArtifactsExtra: { finish: Finish | undefined }
  Params: { id?: string }
  Payload: Buffer | null
}

export function apiRoutes(deps: ApiDeps): ServerRoute<ApiRefs>[] {
  const { contract, operations, database, clock } = deps
  const services = { ...deps, idempotency: createIdempotency({ database, clock }) }
  const unknown = operations.find(
    ({ operationId }) => !contract.operations.some((known) => known.operationId === operationId),
  )
  if (unknown) throw new Error(`${unknown.operationId} is not an operation of the contract`)
  return contract.operations.map(({ operationId, method, path, scope }) => {
    const operation = operations.find((candidate) => candidate.operationId === operationId)
    if (operation === undefined) throw new Error(`${method} ${path}: no handler for ${operationId}`)
    return {
      method,
      path,
      handler: handlerOf(operation, path, services, clock),
      options: {
        ...(method === 'GET' ? READ_OPTIONS : WRITE_OPTIONS),
        app: { operationId, scope },
      },
    }
  })
}

const READ_OPTIONS: RouteOptions<ApiRefs> = {
  auth: 'principal',
  // By default, hapi sends only a part of the body (206) if the request has a `Range` header. The contract declares no
  // such response.
  response: { ranges: false },
}

const WRITE_OPTIONS: RouteOptions<ApiRefs> = {
  ...READ_OPTIONS,
  // Handlers get the raw bytes of the body, because the contract defines the order of the checks, while hapi would
  // parse the JSON before the handler checks anything. `override` replaces the Content-Type for hapi, which would
  // reject some values with 400. The handler checks the header that the client sent.
  payload: {
    parse: false,
    output: 'data',
    override: 'application/octet-stream',
    // The gateway has already rejected larger bodies.
    maxBytes: BODY_BYTES_MAX,
  },
}

function handlerOf(
  operation: Operation,
  path: string,
  services: Services,
  clock: () => Date,
): Lifecycle.Method<ApiRefs> {
  const respond = async (call: Call, finish: Finish | undefined) => {
    if ('respond' in operation) return operation.respond(call, services)
    assert(finish !== undefined, 'authentication calls `begin` of each operation that has it')
    return finish(call)
  }
  return async (request, h) => {
    const [, query = ''] = (request.raw.req.url ?? '').split(/\?(.*)/s)
    const call = {
      caller: request.auth.credentials,
      path,
      id: request.params.id ?? '',
      query,
      headers: request.raw.req.headers,
      payload: request.payload ?? Buffer.alloc(0),
      now: clock(),
    }
    const { status, body, headers } = await respond(call, request.auth.artifacts.finish)
    const response = h.response(body).code(status).type('application/json')
    for (const [name, value] of Object.entries(headers)) response.header(name, value)
    return response.header('cache-control', 'no-store')
  }
}
