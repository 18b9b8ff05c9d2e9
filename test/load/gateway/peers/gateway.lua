-- nginx's gateway: who calls, what the hour has left, whether the key may.
local cjson = require 'cjson.safe'
local lrucache = require 'resty.lrucache'
local redis = require 'nginx.redis'

local WINDOW_MS = 3600000
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

local function find_key(token)
  local key = keys:get(token)
  if key then return key end
  local answer = ngx.location.capture('/look-up', { method = ngx.HTTP_POST, body = token })
  key = answer.status == 200 and cjson.decode(answer.body)
  if not key or not key.found then return nil end
  local scopes = {}
  for _, scope in ipairs(key.scopes) do scopes[scope] = true end
  key.scopes = scopes
  keys:set(token, key, 60)
  return key
end

local function count(key_id)
  local red = redis:new()
  red:set_timeout(300)
  local ok, err = red:connect(REDIS_HOST, REDIS_PORT)
  if not ok then return nil, err end
  if not script_sha then script_sha = red:script('load', COUNT_SCRIPT) end
  local reply
  reply, err = red:evalsha(script_sha, 1, 'nginx:' .. key_id, WINDOW_MS)
  if not reply then return nil, err end
  red:set_keepalive(60000, 256)
  return reply
end

return function()
  local authorization = ngx.var.http_authorization
  local token = authorization and ngx.re.match(authorization, '^Bearer (\\S+)$', 'ijo')
  local key = token and find_key(token[1])
  if not key then return refuse(401, 'invalid_api_key') end
  local reply = count(key.key_id)
  if not reply then return refuse(503, 'service_unavailable') end
  local header, limit, used = ngx.header, key.rate_limit, reply[1]
  header['X-RateLimit-Limit'] = limit
  header['X-RateLimit-Remaining'] = used < limit and limit - used or 0
  header['X-RateLimit-Reset'] = math.ceil(ngx.now() + reply[2] / 1000)
  if used > limit then return refuse(429, 'rate_limit_exceeded') end
  local path = ngx.re.match(ngx.var.uri, '^/api/v1/(\\w+)(?:/[^/]+)?$', 'jo')
  local scope = path and (SCOPES[ngx.req.get_method()] or {})[path[1]]
  if not scope then return refuse(404, 'route_not_found') end
  if not key.scopes[scope] then return refuse(403, 'insufficient_scope') end
  ngx.var.principal = key.principal
end
