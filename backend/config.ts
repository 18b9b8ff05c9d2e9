import { hkdfSync } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { PROCESS_SETTINGS } from '../shared/process/lifecycle.ts'
import {
  host,
  httpOrigin,
  integer,
  list,
  oneOf,
  optional,
  port,
  readEnvironmentFile,
  readSettings,
  type Setting,
  SettingsError,
  type SettingsOf,
  secret,
  text,
} from '../shared/process/settings.ts'
import type { Pepper } from './api-keys/peppers.ts'
import { type NamedAddress, parseNamedAddress } from './mail/addresses.ts'
import { parseSmtpUrl } from './mail/smtp-url.ts'

/** The command line also reads these settings. */
const STORAGE_SETTINGS = {
  DATA_DIR: text(
    'The directory for the SQLite database, for mail that is written to files, and for the secrets that the first `npm start` creates.',
    {
      fallback: './data',
    },
  ),
  DATABASE_URL: optional(
    text(
      'The database: `sqlite:/path/to/file.db` or `postgres://user:password@host/database`, which can name several servers: `@one:5432,two:5432/`. If unset, the database is the file receivables.db in DATA_DIR.',
      { secret: true },
    ),
  ),
  DATABASE_DIRECT_URL: optional(
    text(
      'The address of PostgreSQL itself, for migrations, exports, erasures, and the connections with which each backend listens for notifications and polls the PostgreSQL servers. Required if DATABASE_URL is the address of a pooler in transaction mode.',
      { secret: true },
    ),
  ),
  KEY_PEPPER: peppers(
    'The secrets that protect stored API keys: `v2:…,v1:…`. New keys are hashed with the first. An existing key is verified with the secret with which it was hashed, so do not remove a secret while keys use it. The backend and the command line must have the same value.',
  ),
}

export interface OperatorSettings {
  readonly DATA_DIR: string
  readonly DATABASE_URL: string | undefined
  readonly DATABASE_DIRECT_URL: string | undefined
  /** Reads KEY_PEPPER only when it is called, since not every command needs it. Throws `SettingsError`. */
  peppers(): readonly Pepper[]
  /** Reads settings that only some commands need. Throws `SettingsError`. */
  read<S extends Record<string, Setting<unknown>>>(schema: S): SettingsOf<S>
}

/** The command line's settings. Settings that are absent from the environment are read from `$DATA_DIR/secrets.env`. */
export function readOperatorSettings(environment: Environment): OperatorSettings {
  const { DATA_DIR, DATABASE_URL, DATABASE_DIRECT_URL, KEY_PEPPER } = STORAGE_SETTINGS
  // The environment may also contain settings of the backend and the gateway, which must not be rejected.
  // `readSettings` rejects an unknown variable only if it begins with `prefix`, and no setting begins with `CLI_`.
  const read = <S extends Record<string, Setting<unknown>>>(schema: S, from: Environment) =>
    readSettings(schema, from, { prefix: 'CLI_' })
  const directory = read({ DATA_DIR }, environment).DATA_DIR
  const complete = { ...readSecrets(directory, environment), ...withoutEmpty(environment) }
  return {
    ...read({ DATA_DIR, DATABASE_URL, DATABASE_DIRECT_URL }, complete),
    peppers: () => read({ KEY_PEPPER }, complete).KEY_PEPPER,
    read: (schema) => read(schema, complete),
  }
}

type Environment = Readonly<Record<string, string | undefined>>

/** Reads `secrets.env`, without the secrets for which the environment names another file (`NAME_FILE`). */
function readSecrets(directory: string, environment: Environment): Environment {
  const path = join(directory, 'secrets.env')
  if (!existsSync(path)) return {}
  if ((statSync(path).mode & 0o077) !== 0) {
    throw new SettingsError([`${path} can be read by other users. Run: chmod 600 ${path}`])
  }
  const secrets = Object.entries(readEnvironmentFile(path))
  return Object.fromEntries(secrets.filter(([name]) => !environment[`${name}_FILE`]?.trim()))
}

/** Removes empty and blank variables. Like absent variables, they do not override `secrets.env`. */
function withoutEmpty(environment: Environment): Environment {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => value?.trim()))
}

const MAIL_SETTINGS = {
  SMTP_URL: optional({
    ...text(
      'The mail server: `smtp://user:password@host:587`, or smtps:// for TLS from the start. If unset, mail is written to files in DATA_DIR/mail.',
      { secret: true },
    ),
    parse: parseSmtpUrl,
  }),
  MAIL_FROM: optional({
    ...text(
      'The sender address of mail, e.g. `Receivables <reminders@mail.acme.nl>`. Required with SMTP_URL.',
    ),
    parse(value): NamedAddress {
      const from = parseNamedAddress(value)
      if (from === undefined) throw new Error(`must be an e-mail address, not "${value}"`)
      return from
    },
  }),
  MAIL_INBOUND_SECRET: optional(
    list(
      secret(
        'The secret with which your mail server posts received mail to /mail/inbound. A second secret, after a comma, is also accepted during a rotation. If unset, /mail/inbound is off.',
      ),
    ),
  ),
}

/** The sender of mail that is written to files, if MAIL_FROM is not set. This address cannot receive replies. */
const FILE_SENDER: NamedAddress = { name: 'Receivables', address: 'receivables@mail.invalid' }

/** The result contains no secrets. Throws the same errors as `mailOptions`. */
export function describeMail(settings: MailSettings): string {
  const { server, mailFrom, directory, inboundSecrets } = mailOptions(settings)
  if (server === undefined) return `Mail is written to ${directory}.`
  const inbound = inboundSecrets === undefined ? 'not accepted' : 'accepted at /mail/inbound'
  return `Mail from ${mailFrom.address} is handed over to ${server.host}:${server.port}. Bounces and replies are ${inbound}.`
}

type MailSettings = SettingsOf<typeof MAIL_SETTINGS> & {
  readonly DATA_DIR: string
  readonly BASE_URL: string
  readonly SECRET_BOX_KEY: readonly string[]
}

/** Throws `SettingsError` if SMTP_URL is set without MAIL_FROM. */
export function mailOptions(settings: MailSettings) {
  const { SMTP_URL: server, MAIL_FROM: mailFrom, SECRET_BOX_KEY: keys } = settings
  if (server !== undefined && mailFrom === undefined) {
    throw new SettingsError([`MAIL_FROM is not set: ${MAIL_SETTINGS.MAIL_FROM.description}`])
  }
  return {
    server,
    mailFrom: mailFrom ?? FILE_SENDER,
    directory: join(settings.DATA_DIR, 'mail'),
    inboundSecrets: settings.MAIL_INBOUND_SECRET,
    baseUrl: settings.BASE_URL,
    // If the text 'unsubscribe links' changed, the unsubscribe links in sent mails would no longer work.
    unsubscribeLinkKeys: keys.map((key) => deriveKey(key, 'unsubscribe links')),
    // These keys also derive the codes of password resets. If the text 'invitation codes' changed, the codes would no
    // longer match their stored hashes.
    mailedCodeKeys: keys.map((key) => deriveKey(key, 'invitation codes')),
  }
}

/** The command `reminders run` also reads these settings. */
export const REMINDER_SETTINGS = {
  ...MAIL_SETTINGS,
  BASE_URL: httpOrigin('The public address of the service.', { fallback: 'http://127.0.0.1:8080' }),
  SECRET_BOX_KEY: list(
    secret(
      'The key that encrypts stored secrets; cursors and tokens use keys derived from it. A second key, after a comma, still decrypts during a rotation.',
    ),
  ),
  REHEARSAL: oneOf(
    '`on`: reminders are planned and sent only by `reminders run --now T`, as if the time were T. Notices to users wait until REHEARSAL is off.',
    ['off', 'on'],
    { fallback: 'off' },
  ),
}

export const BACKEND_SETTINGS = {
  ...STORAGE_SETTINGS,
  DATABASE_CONNECTIONS: integer(
    'The maximum number of connections of each backend to PostgreSQL, in addition to one for notifications and one for polling each server or pooler. A third of this number, but at least two, is for reading.',
    {
      min: 3,
      max: 1000,
      fallback: '15',
    },
  ),
  BACKEND_HOST: host('The address of the listener for gateways.'),
  BACKEND_PORT: port('The port of the listener for gateways; 0 chooses a free one.', 8081),
  BACKEND_SOCKET: optional(
    socketPath(
      'The path of a Unix socket to listen on instead of the port, for gateways on this machine. Only processes that run with the same Unix user or group as the backend can connect.',
    ),
  ),
  BACKEND_OPERATIONS_HOST: host('The address of the operations listener.'),
  BACKEND_OPERATIONS_PORT: port(
    'The port of /healthz, /readyz and /metrics; 0 chooses a free one.',
    8083,
  ),
  ...REMINDER_SETTINGS,
  GATEWAY_SECRET: list(
    secret(
      'The secret that gateways and backends share. A second secret, after a comma, is also accepted during a rotation.',
    ),
  ),
  WEBHOOK_PRIVATE_TARGETS: oneOf(
    '`allow`, for development: webhooks may be sent to any address over HTTPS, and to loopback addresses also over plain HTTP. `refuse`: only to public addresses, and only over HTTPS.',
    ['refuse', 'allow'],
    { fallback: 'refuse' },
  ),
  ...PROCESS_SETTINGS,
}

/** `DATABASE_URL`, or the default file in `DATA_DIR`. */
export function databaseUrl(settings: {
  readonly DATA_DIR: string
  readonly DATABASE_URL: string | undefined
}): string {
  return settings.DATABASE_URL ?? `sqlite:${settings.DATA_DIR}/receivables.db`
}

/** Derives a separate key for each purpose, so that a token made for one purpose is invalid for any other. */
export function deriveKey(secretBoxKey: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secretBoxKey, '', `receivables ${purpose}`, 32))
}

function peppers(description: string): Setting<readonly Pepper[]> {
  const inner = secret(description)
  const pepper: Setting<Pepper> = {
    ...inner,
    parse(value) {
      const [, version, rest = ''] = /^(v\d+):(.*)$/s.exec(value) ?? []
      if (version === undefined) throw new Error('must be `v1:` and a secret, e.g. v1:4f9Qx…')
      return { version, secret: inner.parse(rest) }
    },
  }
  return {
    ...list(pepper),
    parse(value) {
      const all = list(pepper).parse(value)
      if (new Set(all.map(({ version }) => version)).size < all.length) {
        throw new Error('names a version twice')
      }
      return all
    },
  }
}

/** The limit of Linux for a socket path. */
const SOCKET_PATH_BYTES_MAX = 107

function socketPath(description: string): Setting<string> {
  return {
    ...text(description),
    parse(path) {
      if (!path.startsWith('/')) throw new Error(`must be an absolute path, not "${path}"`)
      if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
        throw new Error(`must have at most ${SOCKET_PATH_BYTES_MAX} bytes`)
      }
      return path
    },
  }
}
