-- One charge at the server's time, the most common request: ARGV[1] is the counter's argument. The
-- verb is kTake if there is no other, ARGV[2].
local verb = ARGV[2] and string.byte(ARGV[2]) or kTake
local call, explicit_ms = redis.call, nil
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local keys, values, key = KEYS, nil, KEYS[1]
local state, admits, value, keep_for, others = decide[1](key, ARGV[1], now, verb)
if state == nil then return foreign(key, admits) end
if value then
  include 'write'
end
return struct.pack(kSingleReply, admits and now + kAdmits or now, state or '')
