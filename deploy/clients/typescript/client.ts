import createClient, { type Client } from 'openapi-fetch'
import { createListReader, type ListReader } from './lists.ts'
import { createRetryingFetch, type RetryOptions } from './retries.ts'
import type { paths } from './schema.ts'

export interface ReceivablesOptions extends RetryOptions {
  /** The URL of the service without `/api/v1`, e.g. `https://receivables.example`. */
  readonly baseUrl: string
  /** The whole API key, `rcv_…`. Keep it on your server. */
  readonly key: string
}

/**
 * `GET` and `POST` are those of openapi-fetch: they resolve with `data`, or with the problem (the JSON of an error
 * response of the service) as `error`. They throw a `ReceivablesError` if a proxy rejected the last attempt, and
 * another error if the request is aborted or the last attempt got no complete response of the service.
 */
export interface ReceivablesClient extends Pick<Client<paths>, 'GET' | 'POST'> {
  /**
   * Reads every page of a list. Throws a `ReceivablesError` if the service or a proxy rejects a request, and another
   * error if the last attempt of a request got no complete response of the service.
   */
  readonly listAll: ListReader
}

export function createReceivablesClient(options: ReceivablesOptions): ReceivablesClient {
  const baseUrl = options.baseUrl.trim().replace(/\/+$/, '')
  // With an address such as `localhost:8080`, `fetch` would throw, and each request would be repeated as if there had
  // been no response.
  if (!/^https?:\/\//i.test(baseUrl)) {
    throw new TypeError(`baseUrl must begin with http:// or https://, not ${options.baseUrl}`)
  }
  const headers = { authorization: `Bearer ${options.key}` }
  const fetch = createRetryingFetch(options)
  const { GET, POST } = createClient<paths>({
    baseUrl,
    headers,
    fetch,
    // The service expects several values of one parameter separated by commas.
    querySerializer: { array: { style: 'form', explode: false } },
  })
  const listAll = createListReader((target) => fetch(new Request(baseUrl + target, { headers })))
  return { GET, POST, listAll }
}
