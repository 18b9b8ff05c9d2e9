/** The gateway's settings. */
import { readFileSync } from 'node:fs'
import { PROCESS_SETTINGS } from '../shared/process/lifecycle.ts'
import {
  httpUrl,
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
  GATEWAY_HOST: text('Address the public listener binds to.', { fallback: '127.0.0.1' }),
  GATEWAY_PORT: port('Port of the public listener; 0 takes a free one.', 8080),
  GATEWAY_OPERATIONS_HOST: text('Address the operations listener binds to.', {
    fallback: '127.0.0.1',
  }),
  GATEWAY_OPERATIONS_PORT: port(
    'Port of /healthz, /readyz and /metrics; 0 takes a free one.',
    8082,
  ),
  GATEWAY_WORKERS: integer(
    'Processes that share the public port, one for each core at most; more than one needs REDIS_URL.',
    { min: 1, max: 64, fallback: '1' },
  ),
  GATEWAY_REQUEST_TIMEOUT_MS: integer('Time for a request to arrive; after it 408.', {
    min: 100,
    max: 600_000,
    fallback: '15000',
  }),
  GATEWAY_ANSWER_TIMEOUT_MS: integer(
    'Time for a client to receive a response; after it the connection is reset.',
    {
      min: 100,
      max: 600_000,
      fallback: '30000',
    },
  ),
  GATEWAY_UPSTREAM_TIMEOUT_MS: integer(
    'Time for a backend to begin a response, and between two parts of it; after it 504.',
    { min: 100, max: 600_000, fallback: '10000' },
  ),
  GATEWAY_QUEUE_WAIT_MS: integer(
    'Longest expected wait of a call for a connection to a backend; calls beyond it get 503, uncounted.',
    { min: 10, max: 5_000, fallback: '250' },
  ),
  GATEWAY_CONNECTIONS: integer(
    'Connections of clients; beyond it one that waits is closed for each new one. Less if fewer files may be open.',
    { min: 10, max: 1_000_000, fallback: '5000' },
  ),
  GATEWAY_CONNECTIONS_PER_CLIENT: integer(
    'The same for one client: an IPv4 address, or the /64 of an IPv6 address. Ignored with TRUST_PROXY.',
    { min: 1, max: 1_000_000, fallback: '1250' },
  ),
  GATEWAY_CONNECTION_AGE_S: integer(
    'Age of a connection, more or less a tenth, from which its next response closes it: balancers spread clients anew.',
    { min: 1, max: 1_000_000, fallback: '3600' },
  ),
  GATEWAY_CLIENT_MEMORY_MIB: integer(
    'Memory for what clients have sent in part or have not received yet; a quarter of it is for keys that are not cached.',
    { min: 1, max: 65_536, fallback: '48' },
  ),
  GATEWAY_MEMORY_PER_CLIENT_MIB: integer('The same for one client.', {
    min: 1,
    max: 65_536,
    fallback: '24',
  }),
  GATEWAY_BODY_RATE_MIN: integer(
    'Least rate of a request body after its first 3 s, in bytes a second; below it 408.',
    { min: 0, max: 1_000_000, fallback: '1024' },
  ),
  BACKEND_URLS: list(
    backendUrl(
      'The backends, separated by commas: http://host:port, or unix:/path on this machine. A name stands for all of its addresses.',
      { fallback: 'http://127.0.0.1:8081' },
    ),
  ),
  BACKEND_CONNECTIONS: integer('Connections to each backend.', {
    min: 1,
    max: 1024,
    fallback: '64',
  }),
  GATEWAY_SECRET: list(
    secret('Shared with the backends; the first signs, a second is accepted while it is rotated.'),
  ),
  REDIS_URL: optional(
    redisUrl(
      'Redis 7 or later that all gateways share: redis://, unix://, redis-sentinel:// or redis-cluster://, rediss… with TLS. Unset: the rate limit is kept in this process.',
    ),
  ),
  REDIS_TLS_CA: optional(
    pemFile('File of the authority that signed the certificate of Redis. Unset: those of Node.'),
  ),
  REDIS_TLS_CERT: optional(pemFile('File of the certificate that Redis requires of its clients.')),
  REDIS_TLS_KEY: optional(pemFile('File of its private key.')),
  RATE_LIMIT_ON_REDIS_OUTAGE: oneOf(
    'While Redis is unavailable: count in this gateway alone (local), or respond with 503 (deny).',
    ['local', 'deny'],
    { fallback: 'local' },
  ),
  BASE_URL: httpUrl('The public address, as clients see it.', {
    fallback: 'http://127.0.0.1:8080',
  }),
  TRUST_PROXY: integer(
    'How many proxies in front add to X-Forwarded-For; 0: the address of the connection counts.',
    { min: 0, max: 10, fallback: '0' },
  ),
  SETTINGS_PAGES: oneOf(
    'Whether this gateway serves /settings and /docs; the links of mails it serves in any case.',
    ['on', 'off'],
    {
      fallback: 'on',
    },
  ),
  TLS_CERT: optional(
    pemFile('File of the certificate, with its chain, in PEM form. Unset: plain HTTP.'),
  ),
  TLS_KEY: optional(pemFile('File of its private key.')),
  ACCESS_LOG: oneOf('Whether each call has a line of the log, at level info.', ['on', 'off'], {
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

/** Named by its path; the value is what it holds. */
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
