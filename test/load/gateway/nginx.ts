/** Starts nginx: as the fast upstream of every subject, as a bare proxy, or as a gateway in Lua. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { reservePort } from '../../fixtures/servers/ports.ts'
import { type Cleanup, type Started, startOn } from '../machine.ts'

/** The folder in which Debian installs the modules. */
const MODULES = '/usr/lib/nginx/modules'

export interface NginxOptions {
  readonly name: string
  readonly core: number
  readonly directory: string
  /** The modules to load. */
  readonly modules?: readonly string[]
  /** Returns the content of `http { … }` for a server that listens on this port. */
  http(port: number): string
}

export async function startNginx(
  cleanup: Cleanup,
  { name, core, directory, modules = [], http }: NginxOptions,
): Promise<Started & { readonly port: number }> {
  const port = await reservePort()
  const file = join(directory, `${name}.conf`)
  const load = modules.map((module) => `load_module ${MODULES}/${module}.so;`).join('\n')
  writeFileSync(
    file,
    `${load}
worker_processes 1;
pcre_jit on;
${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off;
pid ${directory}/${name}.pid;
error_log stderr error;
events { worker_connections 16384; multi_accept on; }
http {
  access_log off;
  tcp_nodelay on;
  keepalive_timeout 75s;
  keepalive_requests 1000000000;
  client_body_temp_path ${directory}/${name}-body;
  proxy_temp_path ${directory}/${name}-proxy;
  fastcgi_temp_path ${directory}/${name}-fastcgi;
  uwsgi_temp_path ${directory}/${name}-uwsgi;
  scgi_temp_path ${directory}/${name}-scgi;
${http(port)}
}
`,
  )
  const started = startOn(cleanup, core, ['nginx', '-p', directory, '-c', file])
  return { ...started, port }
}

/** The response to a read by id. Another benchmark measures lists. */
const BODY = JSON.stringify({
  object: 'debtor',
  id: 'deb_01KAJZ0M2P4R6T8V0X2Z4B6D8F',
  external_id: 'C-10442',
  name: 'Globex Corporation',
  email: 'ap@globex.example',
  phone: '+31201234567',
  language: 'nl',
  currency: 'EUR',
  payment_terms_days: 30,
  address: null,
  status: 'active',
  is_demo: false,
  contactability: { email: 'ok' },
  chasing: { status: 'active', reason: null, until: null },
  balances: [
    { currency: 'EUR', currency_exponent: 2, outstanding: 12500, overdue: 0, unapplied: 0 },
  ],
  metadata: {},
  created_at: '2026-11-21T10:15:00.000Z',
  updated_at: '2026-11-21T10:15:00.000Z',
})

/**
 * Configures the upstream, which responds immediately, and forwards gateways' look-ups and probes to the key service.
 */
export function upstreamConfig(port: number, lookUpUrl: string): string {
  return `
  upstream keys {
    server ${new URL(lookUpUrl).host};
    keepalive 64;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    default_type application/json;
    location / { return 200 '${BODY}'; }
    location /internal/ {
      proxy_pass http://keys;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }`
}

const PROXY = `
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Connection "";`

export function proxyConfig(port: number, upstreamPort: number): string {
  return `${backend(upstreamPort)}
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {${PROXY}
    }
  }`
}

export interface LuaGateway {
  readonly upstreamPort: number
  readonly lookUpUrl: string
  readonly redisPort: number
}

export const LUA_MODULES = ['ndk_http_module', 'ngx_http_lua_module']

export function luaConfig(port: number, gateway: LuaGateway): string {
  const { upstreamPort, lookUpUrl, redisPort } = gateway
  const peer = (file: string) => new URL(`peers/${file}`, import.meta.url)
  return `${backend(upstreamPort)}
  lua_package_path '/usr/share/lua/5.1/?.lua;;';
  lua_socket_log_errors off;
  init_by_lua_block {
    require 'resty.core'
    REDIS_HOST, REDIS_PORT = '127.0.0.1', ${redisPort}
    COUNT_SCRIPT = [==[${readFileSync(peer('count.lua'), 'utf8')}]==]
    GATEWAY = dofile('${peer('gateway.lua').pathname}')
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location = /look-up {
      internal;
      proxy_pass ${lookUpUrl};
    }
    location / {
      set $principal '';
      access_by_lua_block { GATEWAY() }${PROXY}
      proxy_set_header Authorization "";
      proxy_set_header X-Principal $principal;
      proxy_set_header X-Request-Id $request_id;
    }
  }`
}

function backend(port: number): string {
  return `
  upstream backend {
    server 127.0.0.1:${port};
    keepalive 256;
    keepalive_requests 1000000000;
  }`
}
