-- Spends calls of several keys at once, exactly, and heals what an outage left behind.
--
-- KEYS: a counter each, which expires when its window ends.
-- ARGV: the window's length in ms, then for each key five whole numbers, with a space between:
--   limit       calls a window
--   calls       how many to spend
--   known       the count this gateway last knew, 0 for none
--   known_end   the end of the window it knew that of, ms since the epoch, 0 for none
--   unreported  of `known`, what it admitted alone while the store was away
-- Returns: the store's time, then for each key the count before these calls and the window's end.

-- Where a cluster moves a slot a counter takes along how long it lives, not until when: its end shifts
-- by the time that takes, and by what two clocks differ.
local SHIFT_MS = 5000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window = tonumber(ARGV[1])
local answer = { now }

for i, key in ipairs(KEYS) do
  local numbers = {}
  for number in string.gmatch(ARGV[1 + i], '%d+') do numbers[#numbers + 1] = tonumber(number) end
  local limit, calls, known, known_end, unreported = unpack(numbers)

  local counted = redis.call('INCRBY', key, calls)
  local ends = redis.call('PEXPIRETIME', key)
  local before = counted - calls

  if ends < 0 then
    -- No window was open here: the first call of one, or the store lost it.
    if known_end > now then
      before, ends = known, known_end
    else
      ends = now + window
    end
    redis.call('PEXPIREAT', key, string.format('%.0f', ends))
  elseif known_end > now and known_end < ends then
    if ends - known_end < SHIFT_MS and before >= known - unreported then
      -- Moved, with all that was counted.
      before = before + unreported
    else
      -- Lost, and opened anew by a gateway that did not know: the older window holds.
      before = before + known
    end
    ends = known_end
    redis.call('PEXPIREAT', key, string.format('%.0f', ends))
  elseif known_end >= ends and known_end - ends < SHIFT_MS then
    before = math.max(before + unreported, known)
  end

  -- Calls beyond the limit are refused and not counted.
  local after = before + math.min(calls, math.max(0, limit - before))
  if after ~= counted then
    redis.call('SET', key, string.format('%.0f', after), 'KEEPTTL')
  end
  answer[#answer + 1] = before
  answer[#answer + 1] = ends
end

return answer
