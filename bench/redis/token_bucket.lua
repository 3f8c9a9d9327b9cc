-- A token bucket as it is commonly written. Uses the client's clock; a denied request takes
-- nothing.
-- KEYS: the bucket. ARGV: capacity, tokens a second, now in seconds, tokens wanted.
local key = KEYS[1]
local capacity = tonumber(ARGV[1])
local rate = tonumber(ARGV[2])
local now = tonumber(ARGV[3])
local wanted = tonumber(ARGV[4])

local bucket = redis.call('HMGET', key, 'tokens', 'last')
local tokens = tonumber(bucket[1]) or capacity
local last = tonumber(bucket[2]) or now

tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = tokens >= wanted
if allowed then
  tokens = tokens - wanted
end

redis.call('HMSET', key, 'tokens', tokens, 'last', now)
redis.call('EXPIRE', key, math.ceil(capacity / rate) * 2)
return { allowed and 1 or 0, math.floor(tokens) }
