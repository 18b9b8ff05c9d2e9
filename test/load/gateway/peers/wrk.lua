-- One GET for each key of a file, in turn.
require 'summary'

local requests, at = {}, 0

function init(args)
  for key in io.lines(args[1]) do
    local headers = { ['Authorization'] = 'Bearer ' .. key, ['Accept'] = 'application/json' }
    requests[#requests + 1] = wrk.format('GET', args[2], headers)
  end
  at = math.floor(tonumber(args[3]) * #requests)
end

function request()
  at = at % #requests + 1
  return requests[at]
end
