-- A gateway in nginx: authenticates the key, counts the call, and checks the scope. The code that runs for each call uses
-- only functions that LuaJIT compiles: no Lua patterns, and no table except the connection to Redis.
local cjson = require 'cjson.safe'
local lrucache = require 'resty.lrucache'
local redis = require 'nginx.redis'

local find, lower, sub = string.find, string.lower, string.sub
local ceil, max = math.ceil, math.max
local ngx = ngx
local var, now = ngx.var, ngx.now

local WINDOW_MS = 3600000
local BEARER, PREFIX = 'bearer ', '/api/v1/'
local keys = assert(lrucache.new(200000))
local script_sha

local SCOPES = {
  GET = { debtors = 'debtors:read', invoices = 'invoices:read', payments = 'payments:read', messages = 'messages:read' },
  POST = { debtors = 'debtors:write', invoices = 'invoices:write', payments = 'payments:write' },
}

local function reject(status, code)
  ngx.status = status
  ngx.header.content_type = 'application/json'
  ngx.say('{"code":"', code, '"}')
  return ngx.exit(status)
end

local function look_up(token)
  local response = ngx.location.capture('/look-up', { method = ngx.HTTP_POST, body = token })
  local key = response.status == 200 and cjson.decode(response.body)
  if not key or not key.found then return nil end
  local scopes = {}
  for _, scope in ipairs(key.scopes) do scopes[scope] = true end
  key.scopes, key.counter = scopes, 'nginx:' .. key.key_id
  keys:set(token, key, 60)
  return key
end

local function count(counter)
  local red = redis:new()
  red:set_timeout(300)
  -- This usually reuses an idle connection.
  local ok, err = red:connect(REDIS_HOST, REDIS_PORT)
  if not ok then return nil, err end
  if not script_sha then script_sha = red:script('load', COUNT_SCRIPT) end
  local reply
  reply, err = red:evalsha(script_sha, 1, counter, WINDOW_MS)
  if not reply then return nil, err end
  red:set_keepalive(60000, 256)
  return reply
end

-- Returns the scope of a list, or of one of its objects.
local function scope_of(method, uri)
  if sub(uri, 1, #PREFIX) ~= PREFIX then return nil end
  local slash = find(uri, '/', #PREFIX + 1, true)
  if slash and (slash == #uri or find(uri, '/', slash + 1, true)) then return nil end
  local scopes = SCOPES[method]
  return scopes and scopes[sub(uri, #PREFIX + 1, slash and slash - 1 or -1)]
end

return function()
  local authorization = var.http_authorization
  if not authorization or lower(sub(authorization, 1, #BEARER)) ~= BEARER then
    return reject(401, 'invalid_api_key')
  end
  local token = sub(authorization, #BEARER + 1)
  local key = keys:get(token) or look_up(token)
  if not key then return reject(401, 'invalid_api_key') end
  local reply = count(key.counter)
  if not reply then return reject(503, 'service_unavailable') end
  local header, limit, used = ngx.header, key.rate_limit, reply[1]
  header['X-RateLimit-Limit'] = limit
  header['X-RateLimit-Remaining'] = max(0, limit - used)
  header['X-RateLimit-Reset'] = ceil(now() + reply[2] / 1000)
  if used > limit then return reject(429, 'rate_limit_exceeded') end
  local scope = scope_of(var.request_method, var.uri)
  if not scope then return reject(404, 'route_not_found') end
  if not key.scopes[scope] then return reject(403, 'insufficient_scope') end
  var.principal = key.principal
end
