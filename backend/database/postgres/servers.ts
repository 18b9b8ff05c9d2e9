/** Parses the servers in a PostgreSQL URL with libpq's syntax. */
import type pg from 'pg'
import {
  hasPortZero,
  MUST_NOT_HAVE_PORT_ZERO,
  SettingsError,
} from '../../../shared/process/settings.ts'

/**
 * The accepted values of target_session_attrs. Other values could select a standby, which rejects writes and may
 * return outdated data.
 */
const ATTRIBUTES = ['read-write', 'primary']

/**
 * Returns a URL for each server of
 * `postgres://user:password@one:5432,two:5432/database?target_session_attrs=read-write`. Throws a
 * `SettingsError`, whose text does not contain the password, if the URL is invalid.
 */
export function parseServers(
  url: string,
  setting = 'DATABASE_URL',
): readonly [string, ...string[]] {
  const [, scheme = '', user = '', hosts = '', rest = ''] =
    /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#]*)(.*)$/s.exec(url) ?? []
  const [path, parameters] = splitQuery(rest)
  const attributes = parameters.get('target_session_attrs') ?? 'read-write'
  if (!ATTRIBUTES.includes(attributes)) {
    throw new SettingsError([
      `${setting} has target_session_attrs=${attributes}, but the service needs the server that accepts writes: use read-write`,
    ])
  }
  // The driver does not support this parameter. Instead, primary.ts finds the server that accepts writes.
  parameters.delete('target_session_attrs')
  const login = scheme + completeEncoding(user)
  const suffix = withQuery(completeEncoding(path), parameters)
  const [first = '', ...others] = hosts.split(',').map((host) => login + host.trim() + suffix)
  const servers = [first, ...others] as const
  // If the password contains a `/`, `?` or `#` that is not encoded, the text after this character, with the `@`, is
  // read as the database or a parameter.
  const afterHosts = [path, ...parameters.keys()]
  const hasLostLogin = user === '' && afterHosts.some((part) => part.includes('@'))
  const isValid = (server: string) => isUtf8(server) && parseServer(server) !== null
  if (hasLostLogin || !servers.every(isValid)) {
    throw new SettingsError([
      `${setting} is not a valid PostgreSQL URL. Write it as postgres://user:password@host/database, with special characters encoded as %XX`,
    ])
  }
  const namesPortZero = (server: string) => hasPortZero(parseServer(server) ?? { port: '' })
  if (servers.some(namesPortZero) || hasPortZero({ port: parameters.get('port') ?? '' })) {
    throw new SettingsError([`${setting} ${MUST_NOT_HAVE_PORT_ZERO}`])
  }
  return servers
}

/** Encodes spaces, and each `%` that encodes nothing. Otherwise, the driver would not decode the rest of the URL. */
function completeEncoding(part: string): string {
  return part.replace(/%(?![\da-f]{2})/gi, '%25').replaceAll(' ', '%20')
}

function isUtf8(url: string): boolean {
  try {
    decodeURIComponent(url)
    return true
  } catch {
    return false
  }
}

/**
 * Parses the URL of one server. The class `URL` rejects a login without a host, such as
 * `postgres://user:password@/database?host=/run/postgresql`, which names a Unix socket.
 */
export function parseServer(url: string): URL | null {
  return URL.parse(url) ?? URL.parse(url.replace('@/', '@socket/'))
}

/**
 * The time limits of a session. Those in a URL have no effect, because each kind of session needs limits of its own.
 */
const TIME_LIMITS = [
  'statement_timeout',
  'query_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
]

/**
 * Returns the configuration of a session on the server with the URL. Parameters of the URL that `config` also sets are
 * removed, because the driver would prefer them. For example, an `application_name` in the URL would replace the one by
 * which `database copy` finds connected backends. Only `options` are combined: those of `config` take precedence.
 */
export function configFor(url: string, config: pg.ClientConfig): pg.ClientConfig {
  const [address, parameters] = splitQuery(url)
  const options = [parameters.get('options'), config.options].filter(Boolean).join(' ')
  for (const name of ['options', ...TIME_LIMITS, ...Object.keys(config)]) parameters.delete(name)
  const connectionString = withQuery(address, parameters)
  return { ...config, ...(options === '' ? {} : { options }), connectionString }
}

/** As in libpq, a `+` stands for itself. `URLSearchParams` alone would read it as a space. */
function splitQuery(url: string): readonly [string, URLSearchParams] {
  const [, address = '', query = ''] = /^([^?]*)\??(.*)$/s.exec(url) ?? []
  return [address, new URLSearchParams(query.replaceAll('+', '%2B'))]
}

function withQuery(address: string, parameters: URLSearchParams): string {
  return parameters.size === 0 ? address : `${address}?${String(parameters).replaceAll('+', '%20')}`
}

/** Describes a server for logs and operators, without user and password. */
export function describeServer(url: string): string {
  const { hostname = '', port = '' } = URL.parse(url) ?? {}
  return `${hostname || 'a socket'}:${port || 5432}`
}
