-- One GET for each key of a file, in turn; the summary as one line of JSON.
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

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"calls":%d,"seconds":%.6f,"failed":%d,"p50_ms":%.3f,"p99_ms":%.3f}\n',
    summary.requests, summary.duration / 1e6,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
