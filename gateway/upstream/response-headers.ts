/** Selects the headers of a backend's response that are forwarded to the client. */

/** The headers of RFC 9110, section 7.6.1, and others that concern only the connection to the backend. */
const HOP_BY_HOP = [
  'alt-svc',
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]
/** Headers that a backend cannot set for clients. The gateway sets some of them, and omits the others. */
const NOT_FROM_BACKENDS = [
  'content-length',
  'date',
  'server',
  'via',
  'x-powered-by',
  'x-request-id',
]
const DROPPED = new Set([...HOP_BY_HOP, ...NOT_FROM_BACKENDS])
/**
 * The gateway itself sets the headers of the rate limit. Headers between gateway and backend begin with
 * `x-receivables-`. Headers that begin with `access-control-` would let scripts of other sites read responses.
 */
const DROPPED_PREFIXES = ['x-ratelimit-', 'ratelimit', 'x-receivables-', 'access-control-']

/** In `headers` and the result, names in lower case and values alternate. */
export function headersForClient(headers: readonly string[]): string[] {
  const hopByHop = connectionOptions(headers)
  const forwarded: string[] = []
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (DROPPED.has(name) || hopByHop.includes(name)) continue
    if (DROPPED_PREFIXES.some((prefix) => name.startsWith(prefix))) continue
    forwarded.push(name, headers[index + 1] ?? '')
  }
  return forwarded
}

const NONE: readonly string[] = []

/** Returns the names of further hop-by-hop headers, which the header `Connection` lists. */
function connectionOptions(headers: readonly string[]): readonly string[] {
  let text = ''
  for (let index = 0; index < headers.length; index += 2) {
    if (headers[index] === 'connection') text += `${headers[index + 1]},`
  }
  // The usual values need no parsing.
  return text === '' || text === 'keep-alive,' ? NONE : text.toLowerCase().split(/[\t ]*,[\t ]*/)
}
