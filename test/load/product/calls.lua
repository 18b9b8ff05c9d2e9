-- Calls of an integration: `read`, `list`, `pay`, or `mixed` of 14 reads, 4 lists and 2 payments.
require 'summary'

local headers, ids, kind, run, counter = {}, {}, nil, nil, 0

function init(args)
  headers[args[1]] = args[2]
  for id in io.lines(args[3]) do ids[#ids + 1] = id end
  headers['Content-Type'] = 'application/json'
  kind, run = args[4], args[5]
  math.randomseed(tonumber(run))
end

local make = {
  read = function(id) return wrk.format('GET', '/api/v1/debtors/' .. id, headers) end,
  list = function() return wrk.format('GET', '/api/v1/invoices?limit=50', headers) end,
  pay = function(id)
    counter = counter + 1
    headers['Idempotency-Key'] = run .. '-' .. counter
    local body = '{"debtor_id":"' .. id .. '","currency":"EUR","amount":100}'
    return wrk.format('POST', '/api/v1/payments', headers, body)
  end,
}

function make.mixed(id)
  local at = math.random(20)
  return make[at <= 14 and 'read' or at <= 18 and 'list' or 'pay'](id)
end

function request()
  return make[kind](ids[math.random(#ids)])
end
