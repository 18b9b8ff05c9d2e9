/**
 * One hand-over by SMTP, on a connection of its own: nothing of an earlier mail, no connection that
 * died while it was idle, can come between the decision to send and the sending. nodemailer's
 * connection rather than its transport, since only there can be seen whether the text has begun.
 */
import { Readable } from 'node:stream'
import SMTPConnection, { type SMTPEnvelope } from 'nodemailer/lib/smtp-connection'
import type { HandOff } from './mail.ts'
import type { SmtpAddress } from './smtp-url.ts'
import { faultOf, oneLine, parseReply, type Reply } from './status-codes.ts'

/** For the answer to a text that is on its way while the process drains, which has 10 s. */
const DRAINED_ANSWER_MS_MAX = 3000

/** For `QUIT`, when all is said. */
const GOODBYE_MS_MAX = 2000

export interface HandOver {
  readonly envelope: SMTPEnvelope
  /** Headers and bodies. */
  readonly raw: Buffer
  /** After so long nothing of it may leave any more. */
  readonly beginWithinMs: number
  /** What the server has from then on to take the text and to say so. */
  readonly answerMsMax: number
  /** Ends what has not begun, and soon what has. */
  readonly signal: AbortSignal
}

export function handOver(server: SmtpAddress, handing: HandOver): Promise<HandOff> {
  const { envelope, raw, beginWithinMs, answerMsMax, signal } = handing
  const deadline = performance.now() + beginWithinMs
  const connection = connectionTo(server, beginWithinMs, answerMsMax)
  return new Promise((resolve) => {
    let hasBegun = false
    let answerBy = deadline + answerMsMax
    const settle = (outcome: HandOff, isOver = true) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', hurry)
      if (isOver) connection.close()
      resolve(outcome)
    }
    const fail = (error: SmtpError) => settle(outcomeOf(error, hasBegun))
    const giveUp = () => {
      clearTimeout(timer)
      if (!hasBegun) settle(abandoned('it had not begun in time'))
      else if (performance.now() > answerBy) {
        settle({ outcome: 'unknown', detail: 'the server did not say whether it took the text' })
      } else timer = setTimeout(giveUp, answerBy - performance.now() + 1)
    }
    const hurry = () => {
      answerBy = Math.min(answerBy, performance.now() + DRAINED_ANSWER_MS_MAX)
      giveUp()
    }
    let timer = setTimeout(giveUp, beginWithinMs)
    signal.addEventListener('abort', hurry)

    // Asked for when the server has said that it wants it.
    const text = new Readable({
      read() {
        if (hasBegun) return
        if (performance.now() > deadline || signal.aborted) return giveUp()
        hasBegun = true
        this.push(raw)
        this.push(null)
      },
    })
    const send = () =>
      connection.send(envelope, text, (error, info) => {
        if (error) return fail(error)
        const id = info.serverMessageId ?? queueId(info.response ?? '')
        settle({ outcome: 'accepted', providerMessageId: id }, false)
        sayGoodbye(connection)
      })
    connection.on('error', fail)
    connection.connect((error) => {
      if (error) return fail(error)
      if (server.login === undefined) return send()
      connection.login(server.login, (refused) => (refused ? fail(refused) : send()))
    })
  })
}

function connectionTo(server: SmtpAddress, withinMs: number, answerMsMax: number): SMTPConnection {
  return new SMTPConnection({
    host: server.host,
    port: server.port,
    secure: server.isSecure,
    // A password never goes over the network in clear.
    requireTLS: server.login !== undefined && !server.isLocal,
    tls: { rejectUnauthorized: !server.isLocal, minVersion: 'TLSv1.2' },
    connectionTimeout: withinMs,
    greetingTimeout: withinMs,
    dnsTimeout: withinMs,
    socketTimeout: withinMs + answerMsMax,
    socketCloseTimeout: GOODBYE_MS_MAX,
    logger: false,
  })
}

function sayGoodbye(connection: SMTPConnection): void {
  const timer = setTimeout(() => connection.close(), GOODBYE_MS_MAX)
  connection.once('end', () => clearTimeout(timer))
  connection.quit()
}

/** As most servers name it; others are found by our own Message-ID. */
function queueId(response: string): string | null {
  return /queued as ([\w.-]{1,128})/i.exec(response)?.[1] ?? null
}

interface SmtpError extends Error {
  readonly response?: string | undefined
  readonly command?: string | undefined
}

function outcomeOf({ message, response = '', command }: SmtpError, hasBegun: boolean): HandOff {
  const reply = parseReply(response)
  if (reply === undefined || reply.status < 400) {
    return hasBegun ? { outcome: 'unknown', detail: oneLine(message) } : abandoned(message)
  }
  // A refusal of the greeting, the login or the sender says nothing about whom it was for.
  const phase = command === 'RCPT TO' ? 'recipient' : command === 'DATA' ? 'text' : undefined
  const type = phase === undefined ? 'ours' : faultOf(reply, phase)
  if (type === 'denied') return { ...abandoned(reply.text), isDenied: true }
  return type === 'ours' ? abandoned(reply.text) : refused(type, reply)
}

function abandoned(detail: string) {
  return { outcome: 'abandoned', detail: oneLine(detail) } as const
}

function refused(type: 'hard' | 'soft', { status, enhanced, text }: Reply): HandOff {
  return { outcome: 'refused', type, code: enhanced ?? String(status), detail: text }
}
