/**
 * Reads the OpenAPI document for the API reference and the TypeScript types. Each `$ref` is resolved, except those to
 * schemas, because the reference and the types use the names of schemas.
 */
import type { JsonObject } from '../validation/json.ts'

export interface ContractDocument {
  readonly version: string
  readonly description: string
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly operations: readonly DocumentedOperation[]
  readonly events: readonly DocumentedEvent[]
  readonly headers: ReadonlyMap<string, DocumentedHeader>
  readonly schemas: ReadonlyMap<string, JsonObject>
  /**
   * Returns the members of `value`. If it has a `$ref`, the members of the target are added, unless `value` has them
   * itself.
   */
  resolve(value: unknown): JsonObject
}

type Resolve = ContractDocument['resolve']

export interface DocumentedOperation {
  readonly operationId: string
  readonly method: string
  readonly path: string
  readonly tag: string
  readonly summary: string
  readonly description: string
  /** The required scope; undefined if any key may call the operation. */
  readonly scope: string | undefined
  readonly parameters: readonly Parameter[]
  readonly body: Content | undefined
  readonly responses: readonly DocumentedResponse[]
}

export interface DocumentedEvent {
  readonly name: string
  readonly summary: string
  readonly description: string
  readonly body: Content | undefined
}

export interface Parameter {
  readonly name: string
  readonly location: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly description: string
  readonly schema: JsonObject
  readonly example: unknown
}

export interface DocumentedResponse {
  /** A status such as `201`, or `default`. */
  readonly status: string
  readonly description: string
  readonly headers: ReadonlyMap<string, DocumentedHeader>
  readonly content: Content | undefined
}

export interface DocumentedHeader {
  /** Whether the header is in every response for which it is documented. */
  readonly required: boolean
  readonly description: string
  readonly schema: JsonObject
  readonly example: unknown
}

export interface Content {
  readonly mediaType: string
  readonly schema: JsonObject
  readonly examples: readonly Example[]
}

export interface Example {
  readonly name: string
  readonly summary: string
  readonly value: unknown
}

export function readDocument(json: string): ContractDocument {
  const document = membersOf(JSON.parse(json))
  const components = membersOf(document['components'])
  const info = membersOf(document['info'])

  function resolve(value: unknown): JsonObject {
    const { $ref, ...own } = membersOf(value)
    if (typeof $ref !== 'string') return own
    const referred = $ref
      .split('/')
      .slice(1)
      .reduce((target, name) => membersOf(target[name]), document)
    return { ...resolve(referred), ...own }
  }

  return {
    version: textOf(info['version']),
    description: textOf(info['description']),
    tags: listOf(document['tags']).map((tag) => {
      const { name, description } = membersOf(tag)
      return { name: textOf(name), description: textOf(description) }
    }),
    operations: Object.entries(membersOf(document['paths'])).flatMap(([path, item]) =>
      Object.entries(membersOf(item)).map(([method, value]) =>
        readOperation(resolve, path, method, value),
      ),
    ),
    events: Object.entries(membersOf(document['webhooks'])).map(([name, item]) => {
      const post = membersOf(resolve(item)['post'])
      return { name, ...texts(post), body: readContent(resolve, post['requestBody']) }
    }),
    headers: readHeaders(resolve, components['headers']),
    schemas: new Map(
      Object.entries(membersOf(components['schemas'])).map(([name, schema]) => [
        name,
        membersOf(schema),
      ]),
    ),
    resolve,
  }
}

function readOperation(
  resolve: Resolve,
  path: string,
  method: string,
  value: unknown,
): DocumentedOperation {
  const operation = membersOf(value)
  const [requirement] = listOf(operation['security'])
  const [scopes] = Object.values(membersOf(requirement))
  return {
    operationId: textOf(operation['operationId']),
    method: method.toUpperCase(),
    path,
    tag: textOf(listOf(operation['tags'])[0]),
    ...texts(operation),
    scope: textOf(listOf(scopes)[0]) || undefined,
    parameters: listOf(operation['parameters']).map((parameter) =>
      readParameter(resolve, parameter),
    ),
    body: readContent(resolve, operation['requestBody']),
    responses: Object.entries(membersOf(operation['responses'])).map(([status, response]) =>
      readResponse(resolve, status, response),
    ),
  }
}

function readParameter(resolve: Resolve, value: unknown): Parameter {
  const parameter = resolve(value)
  const location = parameter['in']
  if (location !== 'path' && location !== 'query' && location !== 'header') {
    const name = textOf(parameter['name'])
    throw new Error(`The parameter ${name} is in ${String(location)}, not in path, query or header`)
  }
  return {
    name: textOf(parameter['name']),
    location,
    required: parameter['required'] === true,
    description: textOf(parameter['description']),
    schema: membersOf(parameter['schema']),
    example: parameter['example'],
  }
}

function readResponse(resolve: Resolve, status: string, value: unknown): DocumentedResponse {
  const response = resolve(value)
  return {
    status,
    description: textOf(response['description']),
    headers: readHeaders(resolve, response['headers']),
    content: readContent(resolve, response),
  }
}

function readHeaders(resolve: Resolve, value: unknown): ReadonlyMap<string, DocumentedHeader> {
  return new Map(
    Object.entries(membersOf(value)).map(([name, entry]) => {
      const { description, required, schema, example } = resolve(entry)
      const header = { description: textOf(description), schema: membersOf(schema), example }
      return [name, { ...header, required: required === true }]
    }),
  )
}

function readContent(resolve: Resolve, value: unknown): Content | undefined {
  const [entry] = Object.entries(membersOf(resolve(value)['content']))
  if (entry === undefined) return undefined
  const [mediaType, media] = entry
  const { schema, example, examples } = membersOf(media)
  const named = Object.entries(membersOf(examples)).map(([name, entry]) => {
    const { summary, value } = resolve(entry)
    return { name, summary: textOf(summary), value }
  })
  const single = example === undefined ? [] : [{ name: 'example', summary: '', value: example }]
  return { mediaType, schema: membersOf(schema), examples: [...single, ...named] }
}

function texts({ summary, description }: JsonObject): { summary: string; description: string } {
  return { summary: textOf(summary), description: textOf(description) }
}

/**
 * Returns an empty object if `value` is absent or not an object. It need not throw, because `npm run check` rejects an
 * invalid contract.
 */
export function membersOf(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
