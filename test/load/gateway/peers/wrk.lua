-- Sends one GET for each key of a file, in turn.
require 'summary'

local requests, at = {}, 0

function init(args)
  for key in io.lines(args[1]) do
    -- LuaJIT hashes a string by a few bytes at its ends and in its middle. If these bytes are equal in all strings,
    -- storing 100,000 of them takes minutes. Here the key is in the middle; wrk.format orders headers at random.
    requests[#requests + 1] = table.concat({
      'GET ' .. args[2] .. ' HTTP/1.1',
      'Authorization: Bearer ' .. key,
      'Host: ' .. wrk.host .. ':' .. wrk.port,
      'Accept: application/json',
      '\r\n',
    }, '\r\n')
  end
  at = math.floor(tonumber(args[3]) * #requests)
end

function request()
  at = at % #requests + 1
  return requests[at]
end
