/** Decides, from the error with which the rate-limit script failed, whether the script may have counted API calls. */

/** The command was not sent. */
export class RedisNotConnected extends Error {}

/** The command was sent, but no reply arrived in time. */
export class RedisTimeout extends Error {}

/** The command was sent, but its connection failed before the reply arrived. */
export class RedisReplyLost extends Error {}

/**
 * Errors with which the server rejects a command without executing it. Errors that concern only one counter are not in
 * this list, because the script handles them. An error that occurs after the script has counted some calls begins with
 * `PARTIAL`, which is not in this list either.
 */
const REJECTED_BY_SERVER =
  /^(OOM|LOADING|READONLY|BUSY|NOSCRIPT|MISCONF|NOREPLICAS|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|MOVED|ASK|NOAUTH|NOPERM|WRONGPASS|DENIED)\b/

/** The message of ioredis for a command that it neither sends nor queues; the error has no code. */
const NOT_WRITABLE = "Stream isn't writeable and enableOfflineQueue options is false"

/** Whether Redis replied with an error: the connection and the later commands on it are then still valid. */
export function isErrorReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}

/**
 * Returns true if the script certainly counted nothing. Returns false if it may have counted calls, e.g. if the reply
 * was lost.
 */
export function isNotExecuted(error: unknown): boolean {
  if (isErrorReply(error)) return REJECTED_BY_SERVER.test(error.message)
  return (
    error instanceof RedisNotConnected || (error instanceof Error && error.message === NOT_WRITABLE)
  )
}
