/** The gateway's settings. */
import { readFileSync } from 'node:fs'
import { PROCESS_SETTINGS } from '../shared/process/lifecycle.ts'
import {
  host,
  httpOrigin,
  integer,
  list,
  oneOf,
  optional,
  port,
  type Setting,
  secret,
  text,
} from '../shared/process/settings.ts'
import { parseRedisAddress, type RedisAddress } from './rate-limit/redis-address.ts'
import { parseBackendUrl } from './upstream/addresses.ts'

export const GATEWAY_SETTINGS = {
  GATEWAY_HOST: host('The address of the public listener.'),
  GATEWAY_PORT: port('The port of the public listener; 0 chooses a free one.', 8080),
  GATEWAY_OPERATIONS_HOST: host('The address of the operations listener.'),
  GATEWAY_OPERATIONS_PORT: port(
    'The port of /healthz, /readyz and /metrics; 0 chooses a free one.',
    8082,
  ),
  GATEWAY_WORKERS: integer(
    'The number of processes that share the public port. Set at most one per core; more than one requires REDIS_URL.',
    { min: 1, max: 64, fallback: '1' },
  ),
  GATEWAY_REQUEST_TIMEOUT_MS: integer(
    'A request that has not arrived completely within this time is rejected with 408.',
    {
      min: 100,
      max: 600_000,
      fallback: '15000',
    },
  ),
  GATEWAY_ANSWER_TIMEOUT_MS: integer(
    'How long a client may take to receive a response, from the moment at which the response first has to wait for the client. After this time, the connection is reset. A large response, such as a CSV file, may take longer if the client receives at least 32 KiB per second on average.',
    {
      min: 100,
      max: 600_000,
      fallback: '30000',
    },
  ),
  GATEWAY_UPSTREAM_TIMEOUT_MS: integer(
    'How long a backend may take to begin a response. The rest of the response, or each further part of a large response, must then arrive within the same time. If a backend takes longer, the call fails with 504; if part of the response was already sent to the client, the client’s connection is reset instead.',
    { min: 100, max: 600_000, fallback: '10000' },
  ),
  GATEWAY_QUEUE_WAIT_MS: integer(
    'A call that is expected to wait longer than this for a connection to a backend is rejected with 503, unless few calls are ahead of it. A rejected call does not count against the rate limit.',
    { min: 10, max: 5_000, fallback: '250' },
  ),
  GATEWAY_CONNECTIONS: integer(
    'The maximum number of client connections of each worker. When it is reached, the gateway closes idle connections of the clients that have the most, to accept a new one; if it can close none, it refuses the new one. The maximum is lower if the process may open fewer files.',
    { min: 10, max: 1_000_000, fallback: '5000' },
  ),
  GATEWAY_CONNECTIONS_PER_CLIENT: integer(
    'The maximum number of connections of one client to each worker. A client is an IPv4 address, or the /64 of an IPv6 address. Ignored if TRUST_PROXY is 1 or more, because each connection then comes from a proxy.',
    { min: 1, max: 1_000_000, fallback: '1250' },
  ),
  GATEWAY_CONNECTION_AGE_S: integer(
    'The age in seconds, varied at random by up to a tenth, after which a connection is closed with its next response, unless the client has already sent another request. Load balancers then distribute clients anew.',
    { min: 1, max: 1_000_000, fallback: '3600' },
  ),
  GATEWAY_CLIENT_MEMORY_MIB: integer(
    'The memory of each worker for requests in progress and for responses that clients have not received yet. Three quarters of it are for calls whose key is cached, and a quarter for all others.',
    { min: 1, max: 65_536, fallback: '48' },
  ),
  GATEWAY_MEMORY_PER_CLIENT_MIB: integer(
    'The maximum part of GATEWAY_CLIENT_MEMORY_MIB that one client can use.',
    {
      min: 1,
      max: 65_536,
      fallback: '24',
    },
  ),
  GATEWAY_BODY_RATE_MIN: integer(
    'The minimum average rate of a request body, in bytes per second, counted from 3 seconds after the head. A request with a slower body is rejected with 408.',
    { min: 0, max: 1_000_000, fallback: '1024' },
  ),
  BACKEND_URLS: list(
    backendUrl(
      'The backends, separated by commas: http://host:port, https://host:port, or unix:/path on this machine. Each address of a host name is one backend.',
      { fallback: 'http://127.0.0.1:8081' },
    ),
  ),
  BACKEND_CONNECTIONS: integer(
    'The maximum number of connections for calls from each worker to each backend. Pages and internal requests have connections of their own.',
    {
      min: 1,
      max: 1024,
      fallback: '64',
    },
  ),
  GATEWAY_SECRET: list(
    secret(
      'The secret that gateways and backends share. During a rotation, two secrets separated by a comma: the first signs, and both are accepted.',
    ),
  ),
  REDIS_URL: optional(
    redisUrl(
      'The Redis (7 or later) that all gateways share: redis://, unix://, redis-sentinel:// or redis-cluster://; with TLS, rediss instead of redis. If unset, this process counts calls by itself.',
    ),
  ),
  REDIS_TLS_CA: optional(
    pemFile(
      'A PEM file with the authority that signed the certificate of Redis. If unset, the authorities that Node trusts are used.',
    ),
  ),
  REDIS_TLS_CERT: optional(
    pemFile('A PEM file with the certificate that Redis requires of its clients.'),
  ),
  REDIS_TLS_KEY: optional(pemFile('A PEM file with the private key of REDIS_TLS_CERT.')),
  RATE_LIMIT_ON_REDIS_OUTAGE: oneOf(
    'While Redis is unavailable, each worker counts calls by itself (local) or rejects them with 503 (deny).',
    ['local', 'deny'],
    { fallback: 'local' },
  ),
  BASE_URL: httpOrigin('The public address of the service.', {
    fallback: 'http://127.0.0.1:8080',
  }),
  TRUST_PROXY: integer(
    'The number of trusted proxies in front of the gateway that add to X-Forwarded-For. With 0, the address of the connection is the client address.',
    { min: 0, max: 10, fallback: '0' },
  ),
  SETTINGS_PAGES: oneOf(
    'Whether this gateway serves /settings and /docs. It always serves /mail/inbound, and the pages to which links in reminders lead.',
    ['on', 'off'],
    {
      fallback: 'on',
    },
  ),
  TLS_CERT: optional(
    pemFile(
      'A PEM file with the certificate of the gateway and its chain. If unset, the gateway speaks plain HTTP.',
    ),
  ),
  TLS_KEY: optional(pemFile('A PEM file with the private key of TLS_CERT.')),
  ACCESS_LOG: oneOf('Whether each call is logged, at level info.', ['on', 'off'], {
    fallback: 'on',
  }),
  ...PROCESS_SETTINGS,
}

function backendUrl(description: string, options: { readonly fallback: string }): Setting<string> {
  return { ...text(description, options), parse: parseBackendUrl }
}

function redisUrl(description: string): Setting<RedisAddress> {
  return { ...text(description, { secret: true }), parse: parseRedisAddress }
}

/**
 * The variable contains the path of the file, and the value of the setting is the file's content. The error of `parse`
 * continues a sentence that begins with the name of the variable.
 */
function pemFile(description: string): Setting<string> {
  return {
    ...text(description),
    parse(path) {
      try {
        return readFileSync(path, 'utf8')
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        throw new Error(`names a file that cannot be read: ${reason}`, { cause: error })
      }
    },
  }
}
