-- nginx's gateway: who calls, what the hour has left, whether the key may. What runs for each call is
-- of functions that LuaJIT compiles: no pattern of Lua's own, no table but the connection to Redis.
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

local function refuse(status, code)
  ngx.status = status
  ngx.header.content_type = 'application/json'
  ngx.say('{"code":"', code, '"}')
  return ngx.exit(status)
end

local function look_up(token)
  local answer = ngx.location.capture('/look-up', { method = ngx.HTTP_POST, body = token })
  local key = answer.status == 200 and cjson.decode(answer.body)
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
  -- One of those that are kept alive, as a rule.
  local ok, err = red:connect(REDIS_HOST, REDIS_PORT)
  if not ok then return nil, err end
  if not script_sha then script_sha = red:script('load', COUNT_SCRIPT) end
  local reply
  reply, err = red:evalsha(script_sha, 1, counter, WINDOW_MS)
  if not reply then return nil, err end
  red:set_keepalive(60000, 256)
  return reply
end

-- Of a list, or of one of its members.
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
    return refuse(401, 'invalid_api_key')
  end
  local token = sub(authorization, #BEARER + 1)
  local key = keys:get(token) or look_up(token)
  if not key then return refuse(401, 'invalid_api_key') end
  local reply = count(key.counter)
  if not reply then return refuse(503, 'service_unavailable') end
  local header, limit, used = ngx.header, key.rate_limit, reply[1]
  header['X-RateLimit-Limit'] = limit
  header['X-RateLimit-Remaining'] = max(0, limit - used)
  header['X-RateLimit-Reset'] = ceil(now() + reply[2] / 1000)
  if used > limit then return refuse(429, 'rate_limit_exceeded') end
  local scope = scope_of(var.request_method, var.uri)
  if not scope then return refuse(404, 'route_not_found') end
  if not key.scopes[scope] then return refuse(403, 'insufficient_scope') end
  var.principal = key.principal
end
