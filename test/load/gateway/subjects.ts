/**
 * The gateways that are compared, and the floors, which show the minimum cost: programs that only forward calls, and
 * calls without any gateway.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import joi from 'joi'
import { reservePort } from '../../fixtures/servers/ports.ts'
import { startHaproxy } from '../haproxy.ts'
import { type Cleanup, SUBJECT_CORE, startOn } from '../machine.ts'
import { LUA_MODULES, luaConfig, proxyConfig, startNginx } from './nginx.ts'

export interface Scenario {
  readonly directory: string
  readonly upstreamPort: number
  readonly lookUpUrl: string
  readonly redisPort: number
}

export interface RunningSubject {
  readonly url: string
  /** The process id; 0 if the subject has no process of its own. */
  readonly pid: number
}

export interface Subject {
  readonly name: string
  readonly job: 'whole' | 'floor'
  start(cleanup: Cleanup, scenario: Scenario): Promise<RunningSubject>
}

export const OURS = 'this gateway'
export const NGINX_LUA = 'nginx + Lua + Redis'
export const FASTIFY = 'Fastify'
export const DIRECT = 'no gateway'
const AGAINST = 'other checkout'

const THIS_CHECKOUT = fileURLToPath(new URL('../../..', import.meta.url))
const packageSchema = joi
  .object<{ scripts: { gateway: string } }>({
    scripts: joi.object({ gateway: joi.string().required() }).unknown().required(),
  })
  .unknown()

export const SUBJECTS: readonly Subject[] = [
  { name: OURS, job: 'whole', start: (cleanup, scenario) => startOurs(cleanup, scenario) },
  {
    name: NGINX_LUA,
    job: 'whole',
    async start(cleanup, scenario) {
      const { directory } = scenario
      const http = (port: number) => luaConfig(port, scenario)
      const options = { name: 'lua', core: SUBJECT_CORE, directory, modules: LUA_MODULES, http }
      return runningAt(await startNginx(cleanup, options))
    },
  },
  { name: FASTIFY, job: 'whole', start: (...to) => startPeer('fastify.js', ...to) },
  { name: 'http-proxy-3', job: 'whole', start: (...to) => startPeer('http-proxy-3.js', ...to) },
  {
    name: 'bare nginx',
    job: 'floor',
    async start(cleanup, { directory, upstreamPort }) {
      const http = (port: number) => proxyConfig(port, upstreamPort)
      return runningAt(
        await startNginx(cleanup, { name: 'bare', core: SUBJECT_CORE, directory, http }),
      )
    },
  },
  {
    name: 'bare HAProxy',
    job: 'floor',
    async start(cleanup, { directory, upstreamPort }) {
      const sections = (port: number) => `frontend gateway
  bind 127.0.0.1:${port}
  default_backend upstream
backend upstream
  server one 127.0.0.1:${upstreamPort} pool-max-conn 256
`
      return runningAt(await startHaproxy(cleanup, { directory, sections }))
    },
  },
  {
    name: DIRECT,
    job: 'floor',
    start: async (_, { upstreamPort }) => runningAt({ port: upstreamPort, pid: 0 }),
  },
]

/** Returns the gateway of another checkout, to measure a change. The dependencies of the checkout must be installed. */
export function gatewayOf(checkout: string): Subject {
  return {
    name: AGAINST,
    job: 'whole',
    start: (cleanup, scenario) => startOurs(cleanup, scenario, {}, checkout),
  }
}

/** Starts the gateway of a checkout as `npm run gateway` does in the checkout. `env` overrides settings. */
export async function startOurs(
  cleanup: Cleanup,
  { upstreamPort, redisPort }: Scenario,
  env: NodeJS.ProcessEnv = {},
  checkout: string = THIS_CHECKOUT,
): Promise<RunningSubject> {
  const port = await reservePort()
  const command = [process.execPath, ...gatewayArguments(checkout)]
  const { pid } = startOn(cleanup, SUBJECT_CORE, command, {
    NODE_COMPILE_CACHE: join(checkout, 'node_modules/.cache/node'),
    GATEWAY_PORT: String(port),
    GATEWAY_OPERATIONS_PORT: '0',
    BACKEND_URLS: `http://127.0.0.1:${upstreamPort}`,
    REDIS_URL: `redis://127.0.0.1:${redisPort}`,
    GATEWAY_SECRET: 'gateways+of+the+benchmark+0123456789abcd',
    LOG_LEVEL: 'warn',
    // The peers write no access log either.
    ACCESS_LOG: 'off',
    ...env,
  })
  return runningAt({ port, pid })
}

/**
 * Returns the arguments of Node in the script `gateway` of the checkout, which contains V8 flags in older versions. npm
 * itself is not started, because its process would be measured too.
 */
function gatewayArguments(checkout: string): readonly string[] {
  const text = readFileSync(join(checkout, 'package.json'), 'utf8')
  const { scripts } = joi.attempt(JSON.parse(text), packageSchema)
  const words = scripts.gateway.split(' ')
  return words
    .slice(words.indexOf('node') + 1)
    .map((word) => (word.startsWith('-') ? word : join(checkout, word)))
}

async function startPeer(
  file: string,
  cleanup: Cleanup,
  { upstreamPort, lookUpUrl, redisPort }: Scenario,
): Promise<RunningSubject> {
  const port = await reservePort()
  const path = fileURLToPath(new URL(`peers/${file}`, import.meta.url))
  const { pid } = startOn(cleanup, SUBJECT_CORE, [process.execPath, path], {
    NODE_ENV: 'production',
    PORT: String(port),
    UPSTREAM_URL: `http://127.0.0.1:${upstreamPort}`,
    LOOK_UP_URL: lookUpUrl,
    REDIS_URL: `redis://127.0.0.1:${redisPort}`,
  })
  return runningAt({ port, pid })
}

function runningAt({ port, pid }: { readonly port: number; readonly pid: number }): RunningSubject {
  return { url: `http://127.0.0.1:${port}`, pid }
}
