-- Makes the calls of an integration: `read`, `list`, `pay` (on account), `settle` (an invoice), `browse` (as many lists
-- as reads), or `mixed` (14 reads, 4 lists and 2 payments on account). Each line of the file has the ids of a debtor
-- and an invoice.
require 'summary'

local headers, ids, invoices, kind, run, counter = {}, {}, {}, nil, nil, 0

function init(args)
  headers[args[1]] = args[2]
  for line in io.lines(args[3]) do
    local id, invoice = line:match('(%S+) (%S+)')
    ids[#ids + 1], invoices[id] = id, invoice
  end
  headers['Content-Type'] = 'application/json'
  kind, run = args[4], args[5]
  math.randomseed(tonumber(run))
end

local function payment(target, id)
  counter = counter + 1
  headers['Idempotency-Key'] = run .. '-' .. counter
  local body = '{"' .. target .. '":"' .. id .. '","currency":"EUR","amount":1}'
  return wrk.format('POST', '/api/v1/payments', headers, body)
end

local make = {
  read = function(id) return wrk.format('GET', '/api/v1/debtors/' .. id, headers) end,
  list = function() return wrk.format('GET', '/api/v1/invoices?limit=50', headers) end,
  pay = function(id) return payment('debtor_id', id) end,
  settle = function(id) return payment('invoice_id', invoices[id]) end,
}

function make.browse(id)
  return make[math.random(2) == 1 and 'read' or 'list'](id)
end

function make.mixed(id)
  local at = math.random(20)
  return make[at <= 14 and 'read' or at <= 18 and 'list' or 'pay'](id)
end

function request()
  return make[kind](ids[math.random(#ids)])
end
