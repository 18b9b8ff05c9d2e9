/** Renders an operation as a `curl` command, in which `$KEY` stands for the API key. */
import type { DocumentedOperation, Example, Parameter } from './document.ts'

/** The command sends `example` as its body. */
export function renderCurl(
  operation: DocumentedOperation,
  baseUrl: string,
  example: Example | undefined = operation.body?.examples[0],
): string {
  const { method, parameters } = operation
  const lines = [
    `curl -i ${quote(baseUrl + exampleTarget(operation))}`,
    '-H "Authorization: Bearer $KEY"',
    ...parameters
      .filter(({ location, required }) => location === 'header' && required)
      .map(({ name, example: value }) => `-H ${quote(`${name}: ${value}`)}`),
    ...(example === undefined
      ? []
      : [
          '-H "Content-Type: application/json"',
          `-d ${quote(JSON.stringify(example.value, null, 2))}`,
        ]),
  ]
  // curl uses GET by default, and POST if there is a body. Every POST of the API has a body.
  if (method !== 'GET' && method !== 'POST') lines.push(`-X ${method}`)
  return lines.join(' \\\n  ')
}

/** Returns the path with the id of the example response, and the query with the examples of its parameters. */
export function exampleTarget({ path, parameters, responses }: DocumentedOperation): string {
  const inPath = parameters.filter(({ location }) => location === 'path')
  const filled = inPath.reduce(
    (text, { name }) => text.replace(`{${name}}`, exampleId(responses)),
    path,
  )
  return filled + exampleQuery(parameters)
}

function exampleId(responses: DocumentedOperation['responses']): string {
  const value = responses[0]?.content?.examples[0]?.value
  return typeof value === 'object' && value !== null && 'id' in value ? String(value.id) : ''
}

function exampleQuery(parameters: readonly Parameter[]): string {
  const shown = parameters.filter(
    ({ location, example }) => location === 'query' && example !== undefined,
  )
  const pairs = shown.map(({ name, example }) => `${name}=${[example].flat().join(',')}`)
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`
}

/** Quotes a text for a POSIX shell, if necessary. An apostrophe cannot be inside single quotes. */
function quote(text: string): string {
  return /^[\w:/.=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
