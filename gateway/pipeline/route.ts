import { readAccept } from '../../shared/contract/accept.ts'
import type { Contract, Operation } from '../../shared/contract/contract.ts'
import { Problem } from '../../shared/contract/problem.ts'
import type { RequestHead } from '../http1/request-head.ts'

/**
 * The operation of the call; the allowed methods if the call is OPTIONS; or the problem with which the call
 * is rejected.
 */
export type Routing = Operation | { readonly allow: string } | Problem

export interface Router {
  route(head: RequestHead): Routing
  /** Returns the value of `Allow`; undefined if there is nothing at the path. */
  allowedMethods(path: string): string | undefined
}

interface Resource {
  readonly pathPattern: RegExp
  readonly operations: ReadonlyMap<string, Operation>
  readonly allow: string
}

export function createRouter(contract: Contract): Router {
  const resources = collectResources(contract)
  const findResource = (path: string) => resources.find(({ pathPattern }) => pathPattern.test(path))

  function route(head: RequestHead): Routing {
    const resource = findResource(head.path)
    if (resource === undefined) {
      return new Problem('route_not_found', `There is nothing at ${head.path}.`)
    }
    const { operations, allow } = resource
    if (head.method === 'OPTIONS') return { allow }
    const operation = operations.get(head.method === 'HEAD' ? 'GET' : head.method)
    if (operation === undefined) {
      const detail = `The path ${head.path} allows ${allow}, not ${head.method}.`
      return new Problem('method_not_allowed', detail, { headers: { allow } })
    }
    if (!acceptsJson(head.headers.get('accept'))) {
      return new Problem(
        'not_acceptable',
        'Only application/json is available: accept that, or send no Accept header.',
      )
    }
    return operation
  }

  return { route, allowedMethods: (path) => findResource(path)?.allow }
}

function collectResources({ operations }: Contract): Resource[] {
  const byPath = Map.groupBy(operations, ({ path }) => path)
  return [...byPath].map(([template, group]) => {
    const methods = group.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
    const expression = template
      .split(/\{[^}]+\}/)
      .map((part) => RegExp.escape(part))
      .join('[^/]+')
    return {
      pathPattern: new RegExp(`^${expression}$`),
      operations: new Map(group.map((operation) => [operation.method, operation])),
      allow: methods.join(', '),
    }
  })
}

/**
 * RFC 9110, section 12.5.1: without the header, everything is accepted; otherwise, the most specific range that matches
 * JSON decides. An empty header counts as absent. A client that accepts `application/problem+json`, the media type of
 * problems, is not rejected unless it excludes `application/json`.
 */
function acceptsJson(accept: string | undefined): boolean {
  if (accept === undefined || accept === '' || accept === 'application/json' || accept === '*/*') {
    return true
  }
  const ranges = readAccept(accept)
  const json = ranges.get('application/json')
  if (json !== undefined) return json
  if (ranges.get('application/problem+json') === true) return true
  return ranges.get('application/*') ?? ranges.get('*/*') ?? false
}
