/**
 * Renders all operations, with the examples of the reference, as a Postman collection (format 2.1). Bruno and
 * Insomnia can import it too.
 */
import { exampleTarget } from './curl.ts'
import type { ContractDocument, DocumentedOperation, Example } from './document.ts'

const FORMAT = 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json'

export function renderCollection(document: ContractDocument, baseUrl: string): string {
  const collection = {
    info: {
      name: 'Receivables API',
      description: 'Set the variable `key` to one of your API keys.',
      version: document.version,
      schema: FORMAT,
    },
    auth: { type: 'bearer', bearer: [{ key: 'token', value: '{{key}}', type: 'string' }] },
    variable: [
      { key: 'base_url', value: baseUrl, type: 'string' },
      { key: 'key', value: '', type: 'string' },
    ],
    item: document.tags.map(({ name, description }) => ({
      name,
      description,
      item: document.operations.filter(({ tag }) => tag === name).flatMap(itemsOf),
    })),
  }
  return JSON.stringify(collection, null, 2)
}

/** Returns one request for each example of the body; without an example, one request without a body. */
function itemsOf(operation: DocumentedOperation) {
  const { summary, body } = operation
  const examples = body?.examples ?? []
  if (examples.length === 0) return [{ name: summary, request: requestOf(operation) }]
  return examples.map((example) => ({
    name: example.summary === '' ? summary : `${summary}: ${example.summary}`,
    request: requestOf(operation, example),
  }))
}

function requestOf(operation: DocumentedOperation, example?: Example) {
  const { method, parameters, description } = operation
  const target = exampleTarget(operation)
  const [path = '', query = ''] = target.split('?')
  const exampleQuery = new URLSearchParams(query)
  const headers = parameters.filter(({ location }) => location === 'header')
  return {
    method,
    description,
    url: {
      raw: `{{base_url}}${target}`,
      host: ['{{base_url}}'],
      path: path.split('/').slice(1),
      query: parameters
        .filter(({ location }) => location === 'query')
        .map(({ name, description: meaning }) => {
          const value = exampleQuery.get(name)
          const pair = { key: name, value: value ?? '', description: meaning }
          // Postman lists a disabled parameter, but does not send it.
          return value === null ? { ...pair, disabled: true } : pair
        }),
    },
    header: [
      ...headers.map(({ name, example: value, required, description: meaning }) => {
        const header = { key: name, value: String(value), description: meaning }
        return required ? header : { ...header, disabled: true }
      }),
      ...(example === undefined ? [] : [{ key: 'Content-Type', value: 'application/json' }]),
    ],
    ...(example === undefined
      ? {}
      : {
          body: {
            mode: 'raw',
            raw: JSON.stringify(example.value, null, 2),
            options: { raw: { language: 'json' } },
          },
        }),
  }
}
