/**
 * The route to which a mail provider, or a script of the mail server, posts the raw mail (`message/rfc822`)
 * that was sent to `MAIL_FROM`. Requests are authenticated with `MAIL_INBOUND_SECRET`.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Request, ServerRoute } from '@hapi/hapi'
import { Problem } from '../../shared/contract/problem.ts'
import type { Logger } from '../../shared/process/log.ts'
import type { Database } from '../database/database.ts'
import { readInboundMail } from './inbound-mail.ts'
import { receiveMail } from './receive-mail.ts'

export interface InboundMailDeps {
  readonly database: Database
  /** The accepted secrets; undefined if inbound mail is off. */
  readonly inboundSecrets: readonly string[] | undefined
  readonly clock: () => Date
  readonly log: Logger
}

export function inboundMailRoutes(deps: InboundMailDeps): ServerRoute[] {
  return [inboundRoute(deps), UNKNOWN_ROUTE]
}

/** Without this route, unknown paths below `/mail` would get hapi's own 404, which is not a problem document. */
const UNKNOWN_ROUTE: ServerRoute = {
  method: '*',
  path: '/mail/{path*}',
  handler() {
    throw new Problem('route_not_found', 'There is no such route.')
  },
}

function inboundRoute({ database, inboundSecrets, clock, log }: InboundMailDeps): ServerRoute {
  return {
    method: 'POST',
    path: '/mail/inbound',
    async handler(request) {
      if (inboundSecrets === undefined) {
        throw new Problem(
          'route_not_found',
          'This installation accepts no inbound mail: MAIL_INBOUND_SECRET is not set.',
        )
      }
      checkSecret(request, inboundSecrets)
      const raw = rawMail(request)
      const mail = await readInboundMail(raw)
      const { kind, messageId } = await database.transaction((tx) =>
        receiveMail(tx, raw, mail, clock()),
      )
      log.info({ kind, messageId }, 'mail received')
      return { object: 'inbound_mail', kind, message_id: messageId }
    },
  }
}

/** The secret is a bearer token or, for mail servers in which only a URL can be configured, the password in the URL. */
function checkSecret({ headers }: Request, secrets: readonly string[]): void {
  const [scheme = '', credential = ''] = String(headers['authorization'] ?? '').split(' ')
  const basic = Buffer.from(credential, 'base64').toString('utf8')
  const sentSecret = /^basic$/i.test(scheme) ? basic.slice(basic.indexOf(':') + 1) : credential
  const isKnown = secrets.some((secret) => timingSafeEqual(digestOf(sentSecret), digestOf(secret)))
  if (isKnown && /^(?:basic|bearer)$/i.test(scheme)) return
  throw new Problem(
    'invalid_mail_secret',
    'Send MAIL_INBOUND_SECRET as the bearer token, or as the password of HTTP Basic authentication.',
    {
      headers: { 'www-authenticate': 'Bearer realm="mail", Basic realm="mail"' },
    },
  )
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function rawMail({ payload, headers }: Request): Buffer {
  if (!/^message\/rfc822\s*(?:;|$)/i.test(String(headers['content-type'] ?? ''))) {
    throw new Problem(
      'unsupported_media_type',
      'Send the unchanged mail with the content type message/rfc822.',
    )
  }
  if (!Buffer.isBuffer(payload) || payload.length === 0) {
    throw new Problem('bad_request', 'The body is empty. Send the unchanged mail.')
  }
  return payload
}
