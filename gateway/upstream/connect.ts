/** Creates connection pools. Connecting itself, over TLS, TCP or a Unix socket, is undici's. */
import { isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import type { BackendAddress } from './addresses.ts'
import { BackendPool } from './pool.ts'

const CONNECT_TIMEOUT_MS = 1_000
/** Shorter than the backend keeps an idle connection open, so that no request meets a closing one. */
const KEEP_ALIVE_MS = 4_000

export function connectPool(
  { origin, ip, socketPath }: BackendAddress,
  connections: number,
): BackendPool {
  // `Host` and the certificate go by the name; connections go to this one of its addresses.
  const lookup: LookupFunction | undefined =
    ip === undefined
      ? undefined
      : (_name, { all }, done) => {
          const family = isIP(ip)
          if (all) done(null, [{ address: ip, family }])
          else done(null, ip, family)
        }
  const options = {
    timeout: CONNECT_TIMEOUT_MS,
    allowH2: false,
    ...(lookup === undefined ? {} : { lookup }),
    ...(socketPath === undefined ? {} : { socketPath }),
  } as buildConnector.BuildOptions
  return new BackendPool({
    createConnect: (onread) => buildConnector({ ...options, onread }),
    origin,
    size: connections,
    keepAliveMs: KEEP_ALIVE_MS,
  })
}
