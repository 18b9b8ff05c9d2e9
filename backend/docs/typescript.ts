/**
 * Renders the OpenAPI document as TypeScript: a type for each object, and the interface `paths` that
 * openapi-fetch expects. Existing generators need the compiler's JavaScript API, which TypeScript 7 lacks.
 */
import {
  type Content,
  type ContractDocument,
  type DocumentedOperation,
  listOf,
  type Members,
  membersOf,
  type Parameter,
  textOf,
} from './document.ts'

export function renderTypeScript({
  version,
  schemas,
  operations,
  events,
}: ContractDocument): string {
  const paths = Map.groupBy(operations, ({ path }) => path)
  const types = [...schemas].map(
    ([name, schema]) => `${comment(schema, '')}export type ${name} = ${typeOf(schema, '')}\n`,
  )
  return `// Types of the Receivables API ${version}, generated from its OpenAPI document. Do not edit it; download it again.

/** Every path with its methods, for \`createClient<paths>\` of openapi-fetch. */
export interface paths {
${[...paths].map(([path, those]) => renderPath(path, those)).join('\n')}
}

/** The body of each event. */
export interface webhooks {
${events.map(({ name, body }) => `  '${name}': ${contentType(body, '  ')}`).join('\n')}
}

/** Any event that your webhook endpoint receives. */
export type WebhookEvent = webhooks[keyof webhooks]

${types.join('\n')}`
}

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']

function renderPath(path: string, operations: readonly DocumentedOperation[]): string {
  const own = new Map(operations.map((it) => [it.method.toLowerCase(), it]))
  const methods = METHODS.map((method) => {
    const operation = own.get(method)
    if (operation === undefined) return `    ${method}?: never`
    return `${comment({ description: operation.summary }, '    ')}    ${method}: ${renderOperation(operation)}`
  })
  return `  '${path}': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never }
${methods.join('\n')}
  }`
}

function renderOperation({ parameters, body, responses }: DocumentedOperation): string {
  const places = (['query', 'header', 'path'] as const).map((place) =>
    renderParameters(
      place,
      parameters.filter((parameter) => parameter.place === place),
    ),
  )
  const requestBody =
    body === undefined
      ? 'requestBody?: never'
      : `requestBody: { content: { '${body.mediaType}': ${contentType(body, '      ')} } }`
  const rendered = responses.map(({ status, content }) => {
    const type = content && `'${content.mediaType}': ${contentType(content, '        ')}`
    return `        ${status}: { headers: Record<string, unknown>; content: { ${type ?? ''} } }`
  })
  return `{
      parameters: {
${places.join('\n')}
        cookie?: never
      }
      ${requestBody}
      responses: {
${rendered.join('\n')}
      }
    }`
}

function renderParameters(place: string, parameters: readonly Parameter[]): string {
  if (parameters.length === 0) return `        ${place}?: never`
  const isOptional = parameters.every(({ required }) => !required)
  const members = parameters.map(({ name, required, description, schema }) => {
    const indent = '          '
    const key = `${memberName(name)}${required ? '' : '?'}`
    return `${comment({ description }, indent)}${indent}${key}: ${typeOf(schema, indent)}`
  })
  return `        ${place}${isOptional ? '?' : ''}: {\n${members.join('\n')}\n        }`
}

function contentType(content: Content | undefined, indent: string): string {
  return content === undefined ? 'never' : typeOf(content.schema, indent)
}

function typeOf(schema: Members, indent: string): string {
  const name = textOf(schema['$ref']).split('/').at(-1)
  if (name !== undefined && name !== '') return name
  const parts = listOf(schema['allOf']).map((part) => typeOf(membersOf(part), indent))
  if (parts.length > 0) return parts.join(' & ')
  if ('const' in schema) return literal(schema['const'])
  const values = listOf(schema['enum'])
  if (values.length > 0) return values.map(literal).join(' | ')
  return [schema['type']]
    .flat()
    .map((type) => ofType(schema, textOf(type), indent))
    .join(' | ')
}

function ofType(schema: Members, type: string, indent: string): string {
  if (type === 'integer') return 'number'
  if (type === 'array') {
    const items = typeOf(membersOf(schema['items']), indent)
    return /[|&]/.test(items) ? `(${items})[]` : `${items}[]`
  }
  return type === 'object' ? objectType(schema, indent) : type
}

function objectType(schema: Members, indent: string): string {
  const properties = Object.entries(membersOf(schema['properties']))
  if (properties.length === 0) {
    const values = schema['additionalProperties']
    return `Record<string, ${typeof values === 'object' ? typeOf(membersOf(values), indent) : 'unknown'}>`
  }
  const required = listOf(schema['required'])
  const inner = `${indent}  `
  const members = properties.map(([name, value]) => {
    const member = membersOf(value)
    const key = `${memberName(name)}${required.includes(name) ? '' : '?'}`
    return `${comment(member, inner)}${inner}${key}: ${typeOf(member, inner)}`
  })
  return `{\n${members.join('\n')}\n${indent}}`
}

function memberName(name: string): string {
  return /^\w+$/.test(name) ? name : `'${name}'`
}

function literal(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : JSON.stringify(value)
}

function comment({ description }: Members, indent: string): string {
  const lines = textOf(description).trimEnd().split('\n')
  if (lines.length > 1) {
    const inner = lines.map((line) => `${indent} * ${line}`.trimEnd())
    return `${indent}/**\n${inner.join('\n')}\n${indent} */\n`
  }
  return lines[0] === '' ? '' : `${indent}/** ${lines[0]} */\n`
}
