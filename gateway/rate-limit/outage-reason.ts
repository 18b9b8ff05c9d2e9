/** What an outage means for calls, by `RATE_LIMIT_ON_REDIS_OUTAGE`. */
export const OUTAGE_EFFECTS = {
  local: 'the rate limit is not shared',
  deny: 'calls are rejected',
} as const

const NO_CONNECTION = 'no connection'

/** Returns the reason for the log and for `/readyz`. It never contains data that was sent to Redis. */
export function outageReason(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  // If a host name has several addresses and no connection to any of them succeeds, the error has no message.
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const match = REASONS.find(([pattern]) => pattern.test(message))
  return match?.[1] ?? (message.split('\n', 1)[0] || code || NO_CONNECTION)
}

/** The reason for each pattern of error messages. In the reasons, “it” and “its” mean Redis. */
const REASONS: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [/WRONGPASS/, 'it rejects the user or the password of REDIS_URL'],
  [/NOAUTH/, 'it requires a password, and REDIS_URL has none'],
  [
    /NOPERM.*keys/,
    'its user may not access rate-limit:* (see the line `user gateway` in docs/scaling.md)',
  ],
  [
    /NOPERM|user executing the script can't/,
    'its user may not run a command that the gateway needs (see the line `user gateway` in docs/scaling.md)',
  ],
  // Before Redis closes the connection, it sends an error reply, which is usually lost.
  [/^DENIED|EPIPE|ECONNRESET/, 'it closed the connection, as in protected mode or at maxclients'],
  [/DB index/, 'it has no database with the number in REDIS_URL'],
  [/Unknown Redis command/, 'it is older than Redis 7.0'],
  [/^READONLY/, 'it is a replica, which accepts no writes'],
  [/^OOM/, 'its memory is full (maxmemory)'],
  [/^MISCONF/, 'it cannot save its data, and is configured to reject writes in this case'],
  [/^NOREPLICAS/, 'it has fewer replicas than min-replicas-to-write requires'],
  [/^BUSY/, 'it is busy with a long script of another client'],
  [/^CLUSTERDOWN/, 'the cluster is down: not all of its slots are served'],
  [/^LOADING/, 'it is loading its data'],
  [/^Redis did not reply/, 'it does not respond'],
  // This also applies if the sentinels respond, but the master that they name does not.
  [
    /^All sentinels are unreachable/,
    'no sentinel responds, or none names a master that accepts connections',
  ],
  [/^Stream isn't writeable|^Connection is closed/, NO_CONNECTION],
]
