-- Counts one call of a key. Returns the count in the window of an hour, and the time until the window ends, in ms.
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return { count, redis.call('PTTL', KEYS[1]) }
