-- One GET for each key of a file, in turn.
require 'summary'

local requests, at = {}, 0

function init(args)
  for key in io.lines(args[1]) do
    -- Not by wrk.format, which puts headers anywhere: LuaJIT hashes a string by a few bytes of its
    -- ends and its middle. Where they are the same in all, to keep 100,000 takes minutes.
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
