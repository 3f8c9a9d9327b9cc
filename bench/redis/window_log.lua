-- A log of the window's requests in a sorted set, as it is commonly written. Uses the client's
-- clock. KEYS: the log. ARGV: limit, window in seconds, now in seconds, a unique member.
local key = KEYS[1]
local limit = tonumber(ARGV[1])
local window = tonumber(ARGV[2])
local now = tonumber(ARGV[3])

redis.call('ZREMRANGEBYSCORE', key, 0, now - window)
local count = redis.call('ZCARD', key)
if count >= limit then
  return { 0, 0 }
end
redis.call('ZADD', key, now, ARGV[4])
redis.call('EXPIRE', key, math.ceil(window))
return { 1, limit - count - 1 }
