/** Parses the servers in a PostgreSQL URL with libpq's syntax. */
import { SettingsError } from '../../../shared/process/settings.ts'

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
    /^(postgres(?:ql)?:\/\/)([^@/?#]*@)?([^/?#]*)(.*)$/s.exec(url) ?? []
  const [path = '', query = ''] = rest.split('?')
  const parameters = new URLSearchParams(query)
  const attributes = parameters.get('target_session_attrs') ?? 'read-write'
  if (!ATTRIBUTES.includes(attributes)) {
    throw new SettingsError([
      `${setting} has target_session_attrs=${attributes}, but the service needs the server that accepts writes: use read-write`,
    ])
  }
  // The driver does not support this parameter. Instead, primary.ts finds the server that accepts writes.
  parameters.delete('target_session_attrs')
  const suffix = parameters.size === 0 ? path : `${path}?${parameters}`
  const [first = '', ...others] = hosts.split(',').map((host) => scheme + user + host + suffix)
  const servers = [first, ...others] as const
  if (servers.some((server) => URL.parse(server) === null)) {
    throw new SettingsError([`${setting} is not a valid PostgreSQL URL`])
  }
  return servers
}

/** Describes a server for logs and operators, without user and password. */
export function describeServer(url: string): string {
  const { hostname = '', port = '' } = URL.parse(url) ?? {}
  return `${hostname || 'a socket'}:${port || 5432}`
}
