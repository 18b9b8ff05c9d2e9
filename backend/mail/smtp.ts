/**
 * Hands one mail over by SMTP. Each mail has its own connection, because a stale connection could delay a mail that
 * has passed the send check. This module uses nodemailer's `SMTPConnection` instead of its transport, because only
 * the connection shows whether the transfer of the text has started.
 */
import { Readable } from 'node:stream'
import SMTPConnection, { type SMTPEnvelope } from 'nodemailer/lib/smtp-connection'
import type { HandOverResult } from './mail.ts'
import type { SmtpAddress } from './smtp-url.ts'
import { failureCauseOf, parseReply, type Reply, toShortLine } from './status-codes.ts'

/** How long a draining process waits for the final reply. By default, the whole drain takes at most 10 s. */
const DRAINED_REPLY_MS_MAX = 3000

const QUIT_MS_MAX = 2000

export interface HandOverOptions {
  /** The domain name with which the server is greeted (`EHLO`). */
  readonly clientName: string
  readonly envelope: SMTPEnvelope
  /** The text of the mail: headers and bodies. */
  readonly raw: Buffer
  /** The transfer of the text must start within this time, or not at all. */
  readonly startWithinMs: number
  /** How long the server may take for its final reply, counted from the end of `startWithinMs`. */
  readonly replyMsMax: number
  /**
   * If this signal aborts before the transfer of the text, nothing is transferred. If it aborts later, the wait for
   * the final reply is shortened to at most `DRAINED_REPLY_MS_MAX`.
   */
  readonly signal: AbortSignal
}

export function handOver(server: SmtpAddress, options: HandOverOptions): Promise<HandOverResult> {
  const { clientName, envelope, raw, startWithinMs, replyMsMax, signal } = options
  const startBy = performance.now() + startWithinMs
  const connection = connectionTo(server, clientName, startWithinMs, replyMsMax)
  return new Promise((resolve) => {
    /** Whether the transfer of the text has started. */
    let hasStarted = false
    let replyBy = startBy + replyMsMax
    const settle = (result: HandOverResult, { keepsOpen = false } = {}) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', shortenWait)
      if (!keepsOpen) connection.close()
      resolve(result)
    }
    const fail = (error: SmtpError) => settle(resultOf(error, hasStarted))
    const settleOrWait = () => {
      clearTimeout(timer)
      if (!hasStarted) settle(notStarted(signal))
      else if (performance.now() > replyBy) {
        settle({
          outcome: 'unknown',
          detail: 'the server did not confirm that it accepted the text',
        })
      } else timer = setTimeout(settleOrWait, replyBy - performance.now() + 1)
    }
    const shortenWait = () => {
      replyBy = Math.min(replyBy, performance.now() + DRAINED_REPLY_MS_MAX)
      settleOrWait()
    }
    let timer = setTimeout(settleOrWait, startWithinMs)
    signal.addEventListener('abort', shortenWait)

    // nodemailer reads this stream as soon as the server has accepted `DATA`.
    const text = new Readable({
      read() {
        if (hasStarted) return
        if (performance.now() > startBy || signal.aborted) return settleOrWait()
        hasStarted = true
        this.push(raw)
        this.push(null)
      },
    })
    const send = () =>
      connection.send(envelope, text, (error, info) => {
        if (error) return fail(error)
        const id = info.serverMessageId ?? parseQueueId(info.response ?? '')
        settle({ outcome: 'accepted', providerMessageId: id }, { keepsOpen: true })
        quit(connection)
      })
    connection.on('error', fail)
    connection.connect((error) => {
      if (error) return fail(error)
      if (server.login === undefined) return send()
      connection.login(server.login, (loginError) => (loginError ? fail(loginError) : send()))
    })
  })
}

function connectionTo(
  server: SmtpAddress,
  clientName: string,
  withinMs: number,
  replyMsMax: number,
): SMTPConnection {
  return new SMTPConnection({
    name: clientName,
    host: server.host,
    port: server.port,
    secure: server.isTlsImplicit,
    // A password is never sent over the network without TLS.
    requireTLS: server.login !== undefined && !server.isLocal,
    tls: { rejectUnauthorized: !server.isLocal, minVersion: 'TLSv1.2' },
    connectionTimeout: withinMs,
    greetingTimeout: withinMs,
    dnsTimeout: withinMs,
    socketTimeout: withinMs + replyMsMax,
    socketCloseTimeout: QUIT_MS_MAX,
    logger: false,
  })
}

function quit(connection: SMTPConnection): void {
  const timer = setTimeout(() => connection.close(), QUIT_MS_MAX)
  connection.once('end', () => clearTimeout(timer))
  connection.quit()
}

/**
 * Returns the queue id, by which the log of the mail server names the mail, if the reply has the form of Postfix and
 * most other servers (`queued as …`), of Exim (`OK id=…`), or of Sendmail and OpenSMTPD (`… Message accepted`).
 */
function parseQueueId(response: string): string | null {
  const id = '([\\w.-]{1,128})'
  const forms = [`queued as ${id}`, `OK id=${id}`, `${id} Message accepted`]
  return new RegExp(forms.join('|'), 'i').exec(response)?.slice(1).find(Boolean) ?? null
}

interface SmtpError extends Error {
  readonly response?: string | undefined
  readonly command?: string | undefined
}

function resultOf(
  { message, response = '', command }: SmtpError,
  hasStarted: boolean,
): HandOverResult {
  const reply = parseReply(response)
  if (reply === undefined || reply.status < 400) {
    return hasStarted ? { outcome: 'unknown', detail: toShortLine(message) } : notAccepted(message)
  }
  // A rejected greeting, login or sender says nothing about the recipient.
  const phase = command === 'RCPT TO' ? 'recipient' : command === 'DATA' ? 'text' : undefined
  const cause = phase === undefined ? 'general' : failureCauseOf(reply, phase)
  if (cause === 'denied') return { ...notAccepted(reply.text), isDenied: true }
  // With `requireTLS`, nodemailer sends STARTTLS even if the server does not offer it. The reply of such a server does
  // not say what is wrong.
  if (command === 'STARTTLS') return notAccepted(`the server rejected STARTTLS: ${reply.text}`)
  return cause === 'general' ? notAccepted(reply.text) : refused(cause, reply)
}

/** The result of a hand-over that may no longer start. */
export function notStarted(stopping: AbortSignal): HandOverResult {
  return notAccepted(
    stopping.aborted ? 'the process is stopping' : 'the hand-over did not start in time',
  )
}

function notAccepted(detail: string) {
  return { outcome: 'abandoned', detail: toShortLine(detail) } as const
}

function refused(type: 'hard' | 'soft', { status, enhanced, text }: Reply): HandOverResult {
  return { outcome: 'refused', type, code: enhanced ?? String(status), detail: text }
}
