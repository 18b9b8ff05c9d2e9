/**
 * Reads the route table from the OpenAPI document, which alone defines the operations and their scopes. The process
 * does not start if the document contains something that the table cannot express: an operation with two security
 * schemes or scopes, a public operation, or a method that the gateway does not route. If such a part were ignored, the
 * operation would be missing, or open to every key.
 */
import { readFileSync } from 'node:fs'
import { load } from 'js-yaml'

export interface Operation {
  readonly operationId: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path template, e.g. `/api/v1/debtors/{id}`. */
  readonly path: string
  /** The scope that the key must have; undefined if any valid key may call the operation. */
  readonly scope: string | undefined
  /** Whether the operation declares the header `Idempotency-Key`, with which a request is safe to retry. */
  readonly idempotent: boolean
}

export interface Contract {
  readonly operations: readonly Operation[]
  /** All scopes that the operations require, each once, in document order. */
  readonly scopes: readonly string[]
}

type JsonObject = Readonly<Record<string, unknown>>

/** The maximum length of a call's body. `openapi.yaml` states it for clients. */
export const BODY_BYTES_MAX = 256 * 1024

/**
 * The methods that the document may contain. The gateway also accepts HEAD at each path that has GET, and OPTIONS at
 * every path.
 */
const METHODS: ReadonlyMap<string, Operation['method']> = new Map([
  ['get', 'GET'],
  ['post', 'POST'],
  ['put', 'PUT'],
  ['patch', 'PATCH'],
  ['delete', 'DELETE'],
])
/** The members of a path item that do not affect routing. */
const DESCRIPTIVE = new Set(['summary', 'description', 'servers', 'parameters'])
/** Each segment is either literal or a parameter. */
const PATH = /^(\/([\w.~-]+|\{\w+\}))+$/

const CONTRACT_FILE = new URL('./openapi.yaml', import.meta.url)

export function readContractDocument(): { readonly yaml: string; readonly json: string } {
  const yaml = readFileSync(CONTRACT_FILE, 'utf8')
  return { yaml, json: JSON.stringify(load(yaml)) }
}

/** Throws an `Error` that names the file and the fault, and the operation if the fault concerns one. */
export function loadContract(file: URL | string = CONTRACT_FILE): Contract {
  try {
    return readContract(members(load(readFileSync(file, 'utf8')), 'the document'))
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`${file} is not a usable contract: ${reason}`, { cause })
  }
}

function readContract(document: JsonObject): Contract {
  const operations = Object.entries(members(document['paths'], 'paths')).flatMap(([path, item]) =>
    readPath(document, path, members(item, path)),
  )
  if (operations.length === 0) throw new Error('paths has no operations')
  const seen = new Set<string>()
  for (const { operationId, method, path } of operations) {
    if (seen.has(operationId))
      throw new Error(`${method} ${path}: the operationId ${operationId} is used twice`)
    seen.add(operationId)
  }
  const scopes = operations.flatMap(({ scope }) => scope ?? [])
  return { operations, scopes: [...new Set(scopes)] }
}

function readPath(document: JsonObject, path: string, item: JsonObject): Operation[] {
  if (!PATH.test(path)) throw new Error(`${path} must consist of plain segments and {parameters}`)
  const pathParameters = array(item['parameters'] ?? [], `parameters of ${path}`)
  return Object.entries(item)
    .filter(([name]) => !DESCRIPTIVE.has(name) && !name.startsWith('x-'))
    .map(([name, value]) => {
      const method = METHODS.get(name)
      if (method === undefined) throw new Error(`${path}: ${name} cannot be routed`)
      const where = `${method} ${path}`
      const operation = members(value, where)
      const parameters = array(operation['parameters'] ?? [], `${where}: parameters`)
      return {
        operationId: text(operation['operationId'], `${where}: operationId`),
        method,
        path,
        scope: readScope(document, operation['security'], `${where}: security`),
        idempotent: [...pathParameters, ...parameters].some((parameter) =>
          isIdempotencyKey(document, parameter, where),
        ),
      }
    })
}

function readScope(document: JsonObject, security: unknown, where: string): string | undefined {
  const [requirement, ...alternatives] = array(security, where)
  const [[scheme, scopes] = [], ...others] = Object.entries(members(requirement, where))
  if (scheme === undefined || alternatives.length > 0 || others.length > 0) {
    throw new Error(`${where} must name exactly one scheme`)
  }
  const declared = resolve(document, `#/components/securitySchemes/${scheme}`, where)
  if (declared['type'] !== 'http' || declared['scheme'] !== 'bearer') {
    throw new Error(`${where}: ${scheme} is not an HTTP bearer scheme`)
  }
  const [scope, ...more] = array(scopes, where)
  if (more.length > 0) throw new Error(`${where} must name at most one scope`)
  return scope === undefined ? undefined : text(scope, where)
}

function isIdempotencyKey(document: JsonObject, value: unknown, where: string): boolean {
  const parameter = members(value, `${where}: a parameter`)
  const reference = parameter['$ref']
  const { name, in: location } =
    reference === undefined ? parameter : resolve(document, text(reference, where), where)
  return location === 'header' && text(name, where).toLowerCase() === 'idempotency-key'
}

/** Resolves a reference within the document. Escaped names (`~1`) are not supported. */
function resolve(document: JsonObject, reference: string, where: string): JsonObject {
  const [root, ...path] = reference.split('/')
  const what = `${where}: ${reference}`
  if (root !== '#') throw new Error(`${what} is outside the document`)
  return path.reduce((value, name) => members(value[name], what), document)
}

// These functions return the value with its type. They throw an `Error` about `what` if the value has another type.

function members(value: unknown, what: string): JsonObject {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  throw new Error(`${what} is ${value === undefined ? 'missing' : 'not an object'}`)
}

function array(value: unknown, what: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw new Error(`${what} is ${value === undefined ? 'missing' : 'not a list'}`)
}

function text(value: unknown, what: string): string {
  if (typeof value === 'string' && value !== '') return value
  const fault = value === undefined ? 'missing' : value === '' ? 'empty' : 'not a string'
  throw new Error(`${what} is ${fault}`)
}
