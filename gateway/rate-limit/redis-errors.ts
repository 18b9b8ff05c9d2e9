/** Decides, from the error with which the rate-limit script failed, whether the script may have counted API calls. */

/** The command was not sent. */
export class RedisNotConnected extends Error {}

/** No reply arrived in time. The command may have been executed. */
export class RedisTimeout extends Error {}

/** The partition's circuit breaker was opened before the reply arrived. The command may have been executed. */
export class RedisReplyLost extends Error {}

/**
 * Errors with which the server rejects the script, or the first write of the script, so that nothing is counted. Not in
 * this list: errors of one counter, which the script handles, and errors after the script has counted some calls, which
 * begin with `PARTIAL`.
 */
const REJECTED_BY_SERVER =
  /^(OOM|LOADING|READONLY|BUSY|NOSCRIPT|MISCONF|NOREPLICAS|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|MOVED|ASK|NOAUTH|NOPERM|WRONGPASS|DENIED)\b/

/** The message of ioredis for a command that it neither sends nor queues; the error has no code. */
const NOT_WRITABLE = "Stream isn't writeable and enableOfflineQueue options is false"

/** Whether Redis replied with an error: the connection and the later commands on it are then still valid. */
export function isErrorReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}

/** Returns false if the script may have counted calls, e.g. if the reply was lost. */
export function hasCountedNothing(error: unknown): boolean {
  if (isErrorReply(error)) return REJECTED_BY_SERVER.test(error.message)
  return (
    error instanceof RedisNotConnected || (error instanceof Error && error.message === NOT_WRITABLE)
  )
}
