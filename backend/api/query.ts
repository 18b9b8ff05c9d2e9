/**
 * Parses query parameters. An unknown parameter is rejected, because a list with a misspelled filter would otherwise
 * return everything.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { type Check, check, Rejection } from '../validation/rejections.ts'

export type QuerySchema = Readonly<Record<string, Check<unknown>>>

export type QueryOf<S extends QuerySchema> = {
  readonly [K in keyof S]?: S[K] extends Check<infer T> ? T : never
}

export interface Parameter {
  readonly name: string
  readonly text: string
}

/** Throws a 400 that names the invalid parameter. */
export function parseQuery<S extends QuerySchema>(
  schema: S,
  parameters: readonly Parameter[],
): QueryOf<S> {
  const values: Record<string, unknown> = {}
  for (const { name, text } of parameters) {
    const valueCheck = Object.hasOwn(schema, name) ? schema[name] : undefined
    if (valueCheck === undefined) throw unknownParameter(name)
    if (Object.hasOwn(values, name)) throw invalidParameter(name, 'must not appear more than once')
    const value = check(valueCheck, text)
    if (value instanceof Rejection) throw invalidParameter(name, value.detail)
    values[name] = value
  }
  // The loop has checked each value against the schema.
  return values as QueryOf<S>
}

/** `query` is raw, without the question mark. Returns decoded names and values, in order. */
export function parametersOf(query: string): Parameter[] {
  return query
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const [name = '', ...rest] = part.split('=')
      return { name: decode(name, name), text: decode(rest.join('='), name) }
    })
}

function decode(text: string, name: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw invalidParameter(name, 'must be percent-encoded UTF-8')
  }
}

function invalidParameter(parameter: string, detail: string): Problem {
  return new Problem(
    'invalid_query_parameter',
    `The parameter ${shortened(parameter)} ${detail}.`,
    {
      members: { parameter: shortened(parameter) },
    },
  )
}

function unknownParameter(parameter: string): Problem {
  const detail = `There is no query parameter ${shortened(parameter)} for this operation.`
  return new Problem('unknown_query_parameter', detail, {
    members: { parameter: shortened(parameter) },
  })
}

/** Keeps the response short: clients may send names of any length. */
function shortened(parameter: string): string {
  // `slice` can cut an emoji into two halves. `toWellFormed` replaces the half that remains.
  return parameter.slice(0, 64).toWellFormed()
}
