-- The short way of single.lua for a bucket: the most common charges, without a function. It writes
-- nothing if it cannot decide, and the long way follows.
repeat
  local unpack, pack = struct.unpack, struct.pack
  local arg, verb = ARGV[1], ARGV[2]
  verb = verb and string.byte(verb) or kTake
  if verb ~= kTake and (verb < kCharge or verb > kTakeAtMost) then break end
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local key, admits, try, explicit_ms = KEYS[1], kAdmits, redis.pcall, nil
  local state = try('GET', key)
  local cost, capacity, l, p, checksum = unpack(kBucketArgument, arg, 2)
  include 'bucket_take'
  if value and try('SET', key, value, 'PX', ms).err then break end
  return pack(kSingleReply, now + admits, state or '')
until true
