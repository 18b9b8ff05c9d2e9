-- Gateways run this script in Redis, which is called the store below. It counts calls of several API keys exactly, and
-- corrects the counts after an outage of Redis.
--
-- KEYS: one counter for each API key; it expires when the window ends.
-- ARGV: the window's length in ms, then one text for each key, which contains five whole numbers, separated by spaces:
--   limit       the number of calls that a window admits
--   calls       the number of calls to count
--   known       the last count that this gateway knows, or 0
--   known_end   the end of that count's window, in ms since the epoch, or 0
--   unreported  the part of `known` that this gateway counted by itself and has not reported to the store before
-- Returns: the store's time, then for each key the count before these calls and the window's end, then the
-- positions in KEYS of the counters that were unusable and were replaced.
--
-- Each key has its own result: an unusable counter (of another type, not a whole number, negative or too large) affects
-- only its key. Any other error concerns the server. Redis normally reports it at the first write of the script, before
-- anything is counted. If it occurs at a later key, the error begins with PARTIAL, because calls of earlier keys were
-- counted.

-- When a cluster moves a slot, a counter keeps its time to live, not its expiry time: the window's end shifts by
-- the duration of the move and the difference between the clocks of the two servers. Two ends that are closer
-- together than this are treated as the end of the same window.
local SHIFT_MS = 5000

-- Lua's numbers are exact up to 2^53. This limit leaves room for the additions below.
local COUNT_MAX = 2 ^ 52

-- Whether an error concerns only this counter, not the server.
local function is_counter_error(message)
  return string.find(message, '^WRONGTYPE') or string.find(message, 'not an integer') or string.find(message, 'overflow')
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window = tonumber(ARGV[1])
local reply = { now }
local replaced = {}

for i, key in ipairs(KEYS) do
  local numbers = {}
  for number in string.gmatch(ARGV[1 + i], '%d+') do numbers[#numbers + 1] = tonumber(number) end
  local limit, calls, known, known_end, unreported = unpack(numbers)
  -- If `known_end` is too late, the gateway learned it before the clock of this server was set back, or computed it
  -- with a clock that is ahead. Without this correction, the window would last longer than its length.
  if known_end > now + window + SHIFT_MS then known_end = now + window end

  local counted = redis.pcall('INCRBY', key, calls)
  local failure = type(counted) == 'table' and counted.err
  if failure and not is_counter_error(failure) then
    if i == 1 then return counted end
    return redis.error_reply('PARTIAL ' .. failure)
  end
  if failure or counted < calls or counted > COUNT_MAX then
    -- The counter is unusable. SET replaces any value. The code below then treats the counter as one that the store
    -- lost.
    redis.call('SET', key, calls)
    counted = calls
    replaced[#replaced + 1] = i
  end
  local ends = redis.call('PEXPIRETIME', key)
  local before = counted - calls

  if ends < 0 or ends > now + window + SHIFT_MS then
    -- No valid window is open: this is the first call of a window, or the store lost the window, or its end is too
    -- late, because the clock of this server was set back or another program altered the end.
    if known_end > now then
      before, ends = math.max(before, known), known_end
    else
      ends = now + window
    end
    redis.call('PEXPIREAT', key, string.format('%.0f', ends))
  elseif known_end > now and known_end < ends then
    if ends - known_end < SHIFT_MS and before >= known - unreported then
      -- The slot was moved. Its counter contains the calls that this gateway has reported.
      before = before + unreported
    else
      -- The store lost the counter, and another gateway opened a new window. The new counter contains none of the calls
      -- that this gateway knows. The older window applies.
      before = before + known
    end
    ends = known_end
    redis.call('PEXPIREAT', key, string.format('%.0f', ends))
  elseif known_end >= ends and known_end - ends < SHIFT_MS then
    -- The counter is of the window that this gateway knows: calls that the gateway has not reported are added. If the
    -- store has lost calls of this window, `known` is higher and applies.
    before = math.max(before + unreported, known)
  elseif known_end >= ends then
    -- While the store was unavailable, this gateway opened a window later than another gateway did: the older window
    -- applies.
    before = before + unreported
  end

  -- Calls beyond the limit are rejected and not counted.
  local after = before + math.min(calls, math.max(0, limit - before))
  if after ~= counted then
    redis.call('SET', key, string.format('%.0f', after), 'KEEPTTL')
  end
  reply[#reply + 1] = before
  reply[#reply + 1] = ends
end

for _, i in ipairs(replaced) do reply[#reply + 1] = i end
return reply
