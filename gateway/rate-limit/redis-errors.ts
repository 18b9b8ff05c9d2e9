/** Sorts the errors of Redis by what they mean for the calls that a script call was to count. */

/** Nothing was sent. */
export class RedisNotConnected extends Error {}

/** Sent, and no reply arrived in time. */
export class RedisTimeout extends Error {}

/** The server rejected a command before it did anything. Errors of one counter are handled by the script. */
const REJECTED_BY_SERVER =
  /^(OOM|LOADING|READONLY|BUSY|NOSCRIPT|MISCONF|NOREPLICAS|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|MOVED|ASK|NOAUTH|NOPERM|WRONGPASS|DENIED)\b/

/** The message of ioredis for a command that it neither sends nor queues; it has no code. */
const NOT_WRITABLE = "Stream isn't writeable and enableOfflineQueue options is false"

/** Whether Redis replied with an error, so that the connection and the commands behind it are sound. */
export function isErrorReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}

/** Whether the script certainly counted nothing. Else its calls may be counted, as when a reply is lost. */
export function isNotExecuted(error: unknown): boolean {
  if (isErrorReply(error)) return REJECTED_BY_SERVER.test(error.message)
  return (
    error instanceof RedisNotConnected || (error instanceof Error && error.message === NOT_WRITABLE)
  )
}
