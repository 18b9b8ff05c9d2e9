/**
 * Parses `REDIS_URL`, which has one form for each kind of deployment:
 *
 *     redis://user:password@host:6379/0                           one server
 *     unix:///run/redis.sock?db=0&username=user&password=…        one server, over a Unix socket; also redis+unix://
 *     redis-sentinel://user:password@h1:26379,h2:26379/mymaster   the master that Sentinel names
 *     redis-cluster://user:password@h1:7000,h2:7001               a cluster
 *
 * With TLS, the scheme begins with `rediss`; a connection over a Unix socket has no TLS. With `redis://`, the option
 * `db` takes precedence over the path. Errors quote only the name of an option, since the URL may contain a password.
 */
import { hasPortZero, MUST_NOT_HAVE_PORT_ZERO } from '../../shared/process/settings.ts'

export interface RedisHost {
  readonly host: string
  readonly port: number
}

export interface RedisLogin {
  readonly username?: string
  readonly password?: string
}

export type RedisAddress = RedisLogin & {
  readonly isTls: boolean
  readonly db: number
} & (
    | (RedisHost & { readonly form: 'server' })
    | { readonly form: 'socket'; readonly path: string }
    | {
        readonly form: 'sentinel'
        readonly sentinels: readonly RedisHost[]
        readonly master: string
        readonly sentinelLogin: RedisLogin
      }
    | { readonly form: 'cluster'; readonly nodes: readonly RedisHost[] }
  )

const SERVER_PORT = 6379
const SENTINEL_PORT = 26379
const MUST_ENCODE_PASSWORD =
  'must encode special characters of its password as %XX, such as / as %2F'
const MUST_NAME_PATH = 'must name a path: unix:///run/redis.sock'
/** The class `URL` of Node.js cannot parse several hosts with their ports. */
const URL_FORM =
  /^(?<scheme>[a-z+-]+):\/\/(?:(?<username>[^:@/?]*)(?::(?<password>[^@/?]*))?@)?(?<hosts>[^/?@]*)(?<path>\/[^?]*)?(?:\?(?<query>.*))?$/

/** Throws an `Error` whose message continues a sentence that begins with "REDIS_URL". */
export function parseRedisAddress(text: string): RedisAddress {
  const { scheme = '', username, password, hosts = '', path = '', query } = splitUrl(text)
  // Without this, `URLSearchParams` would read `+` as a space and decode the values, which `decode` would decode again.
  const options = new URLSearchParams(query?.replaceAll('%', '%25').replaceAll('+', '%2B'))
  const readLogin = () => loginOf(username, password, 'redis://:password@host')
  switch (scheme) {
    case 'redis':
    case 'rediss': {
      const [server, ...others] = parseHosts(hosts, SERVER_PORT)
      rejectUnknownOptions(options, ['db'])
      if (server === undefined || others.length > 0) {
        throw new Error(
          'must name one host; only redis-sentinel:// and redis-cluster:// can have several',
        )
      }
      const db = parseDb(options.get('db') ?? path.slice(1))
      return { form: 'server', isTls: scheme === 'rediss', db, ...readLogin(), ...server }
    }
    case 'unix':
    case 'redis+unix': {
      rejectUnknownOptions(options, ['db', 'username', 'password'])
      if (hosts !== '' || path === '') throw new Error(MUST_NAME_PATH)
      if (username !== undefined) {
        throw new Error(
          'must have the user and password as options if it names a Unix socket: ?username=user&password=…',
        )
      }
      const socketLogin = loginOf(options.get('username'), options.get('password'), '?password=…')
      const db = parseDb(options.get('db'))
      return { form: 'socket', isTls: false, db, ...socketLogin, path: decode(path) }
    }
    case 'redis-sentinel':
    case 'rediss-sentinel': {
      const sentinels = parseHosts(hosts, SENTINEL_PORT)
      rejectUnknownOptions(options, ['db', 'sentinel_username', 'sentinel_password'])
      const master = decode(path.slice(1))
      if (master === '') throw new Error('must name the master: redis-sentinel://h1,h2/mymaster')
      if (path.includes('/', 1)) {
        throw new Error('must name the database as an option: redis-sentinel://h1,h2/mymaster?db=0')
      }
      const sentinelLogin = loginOf(
        options.get('sentinel_username'),
        options.get('sentinel_password'),
        '?sentinel_password=…',
      )
      const db = parseDb(options.get('db'))
      const isTls = scheme === 'rediss-sentinel'
      return { form: 'sentinel', isTls, db, ...readLogin(), sentinels, master, sentinelLogin }
    }
    case 'redis-cluster':
    case 'rediss-cluster': {
      const nodes = parseHosts(hosts, SERVER_PORT)
      rejectUnknownOptions(options, [])
      if (path.length > 1) throw new Error('must name no database: a cluster has only one')
      return { form: 'cluster', isTls: scheme === 'rediss-cluster', db: 0, ...readLogin(), nodes }
    }
    default:
      throw new Error(
        'must begin with redis://, unix://, redis-sentinel:// or redis-cluster:// (with TLS: rediss://, rediss-sentinel:// or rediss-cluster://)',
      )
  }
}

/**
 * Describes the address without its password, for `--check-config`. In different databases, gateways would count the
 * calls of a key separately, so the description includes the database.
 */
export function describeRedis(address: RedisAddress): string {
  const { db, username = 'default' } = address
  return `${describeServers(address)}, database ${db}, as ${username}`
}

function describeServers(address: RedisAddress): string {
  switch (address.form) {
    case 'server':
      return describeHosts([address])
    case 'socket':
      return address.path
    case 'sentinel':
      return `the master ${address.master} of the sentinels ${describeHosts(address.sentinels)}`
    case 'cluster':
      return `the cluster of ${describeHosts(address.nodes)}`
  }
}

function describeHosts(hosts: readonly RedisHost[]): string {
  return hosts
    .map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`)
    .join(', ')
}

function splitUrl(text: string): Partial<Record<string, string>> {
  const groups = URL_FORM.exec(text)?.groups
  if (groups === undefined) {
    if (/^(?:redis\+)?unix:/.test(text)) throw new Error(MUST_NAME_PATH)
    throw new Error(
      'must be an address such as redis://host:6379, with special characters encoded as %XX',
    )
  }
  return groups
}

/** White space around a host is ignored. */
function parseHosts(text: string, defaultPort: number): RedisHost[] {
  return text.split(',').map((part) => {
    const [, name, ipv6, port] =
      /^(?:([^\s:[\]#]+)|\[([0-9a-f:.]+)\])(?::(\d{1,5}))?$/i.exec(part.trim()) ?? []
    const host = name ?? ipv6
    if (host === undefined || Number(port ?? defaultPort) > 65_535) {
      throw new Error(
        `must name each host as host, host:port or [address]:port, and ${MUST_ENCODE_PASSWORD}`,
      )
    }
    if (port !== undefined && hasPortZero({ port })) throw new Error(MUST_NOT_HAVE_PORT_ZERO)
    return { host, port: Number(port ?? defaultPort) }
  })
}

function parseDb(text: string | null): number {
  if (text === null || text === '') return 0
  if (!/^\d{1,5}$/.test(text)) throw new Error('must have a number as its database')
  return Number(text)
}

/**
 * A password without a user name belongs to the user `default`. A user name without a password is rejected: it is often
 * meant as the password, and the client would not log in. `passwordAlone` shows how to write a password without a user.
 */
function loginOf(
  username: string | null | undefined,
  password: string | null | undefined,
  passwordAlone: string,
): RedisLogin {
  if (username && !password) {
    throw new Error(
      `must have a password for its user; a password without a user is written as ${passwordAlone}`,
    )
  }
  return {
    ...(username ? { username: decode(username) } : {}),
    ...(password ? { password: decode(password) } : {}),
  }
}

function rejectUnknownOptions(options: URLSearchParams, names: readonly string[]): void {
  for (const name of options.keys()) {
    // The text after a `?` in a password looks like an option.
    if (name.includes('@')) throw new Error(MUST_ENCODE_PASSWORD)
    if (!names.includes(name)) throw new Error(`has an unknown option: ${name}`)
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Error('must encode each % as %25')
  }
}
