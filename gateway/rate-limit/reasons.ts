/** Why Redis cannot be used, in words that an operator can act on. */

const NO_CONNECTION = 'no connection'

/** For the log and for `/readyz`: what an operator can act on. Never with what was sent. */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  // Where a name has several addresses and none answers, there is no message.
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const known = REASONS.find(([form]) => form.test(message))
  return known?.[1] ?? (message.split('\n', 1)[0] || code || NO_CONNECTION)
}

const REASONS: readonly (readonly [form: RegExp, reason: string])[] = [
  [/WRONGPASS/, 'it refuses the user or the password of REDIS_URL'],
  [/NOAUTH/, 'it wants a password, and REDIS_URL has none'],
  [/NOPERM.*keys/, 'its user may not touch rate-limit:* (see the ACL line of the documentation)'],
  [
    /NOPERM|user executing the script can't/,
    'its user may not run a command that we need (see the ACL line of the documentation)',
  ],
  // What it says to that is mostly lost with the connection.
  [/^DENIED|EPIPE|ECONNRESET/, 'it closed the connection, as in protected mode or at maxclients'],
  [/Unknown Redis command/, 'it is older than Redis 7.0'],
  [/^READONLY/, 'this one is a replica'],
  [/^OOM/, 'its memory is full (maxmemory)'],
  [/^CLUSTERDOWN/, 'the cluster is down: not all of its slots are served'],
  [/^LOADING/, 'it is reading its data'],
  [/^Command timed out|^Socket timeout/, 'it does not answer'],
  [/^Stream isn't writeable|^Connection is closed/, NO_CONNECTION],
]
