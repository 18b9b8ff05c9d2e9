import { problemOf, ReceivablesError } from './receivables-error.ts'
import type { paths } from './schema.ts'

interface ListOperation {
  readonly parameters: { readonly query?: object }
  readonly responses: {
    readonly 200: {
      readonly content: { readonly 'application/json': { readonly data: unknown[] } }
    }
  }
}

/** The paths that return a list. */
export type ListPath = {
  [Path in keyof paths]: paths[Path]['get'] extends ListOperation ? Path : never
}[keyof paths]

/** The filters, `sort`, and `limit` (the number of objects on a page). */
export type ListQuery<Path extends ListPath> = Omit<
  NonNullable<paths[Path]['get']['parameters']['query']>,
  'cursor'
>

export type ListItem<Path extends ListPath> =
  paths[Path]['get']['responses'][200]['content']['application/json']['data'][number]

export type ListReader = <Path extends ListPath>(
  path: Path,
  query?: ListQuery<Path>,
) => AsyncGenerator<ListItem<Path>, void, undefined>

/** `get` sends a GET request; `target` is the path with the query. */
export function createListReader(get: (target: string) => Promise<Response>): ListReader {
  return async function* listAll<Path extends ListPath>(path: Path, query?: ListQuery<Path>) {
    const parameters = new URLSearchParams()
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== undefined) parameters.set(name, String(value))
    }
    for (;;) {
      const response = await get(`${path}?${parameters}`)
      if (!response.ok) throw new ReceivablesError(response.status, await problemOf(response))
      // The contract, from which the types are generated, guarantees this type.
      const page = (await response.json()) as { data: ListItem<Path>[]; next_cursor: string | null }
      yield* page.data
      if (page.next_cursor === null) return
      parameters.set('cursor', page.next_cursor)
    }
  }
}
