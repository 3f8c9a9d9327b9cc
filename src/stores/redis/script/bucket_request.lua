-- The short way of request.lua for buckets: the most common charges, without a function. It writes
-- nothing if it cannot decide, and the long way follows.
repeat
  local unpack, pack, call, try = struct.unpack, struct.pack, redis.call, redis.pcall
  local keys, args = KEYS, ARGV
  local verb, now, explicit_ms = unpack(kRequest, args[1])
  if verb ~= kTake and (verb < kCharge or verb > kTakeAtMost) then break end
  if now == kServerTime then
    local time = call('TIME')
    now, explicit_ms = time[1] * 1000000 + time[2], nil
  end
  local count, decided, admits = #keys, 0, kAdmits
  local states, writes = {false, false, false}, {0, 0, 0, 0, 0, 0}
  for i = 1, count do
    local state = try('GET', keys[i])
    local family, cost, capacity, l, p, checksum = unpack(kBucketOfRequest, args[i + 1])
    if family ~= 1 then break end
    include 'bucket_take'
    states[i], writes[i], writes[i + count], decided = state, value, ms, i
  end
  if decided < count then break end
  if admits > 0 then
    if try('SET', keys[1], writes[1], 'PX', writes[1 + count]).err then break end
    for i = 2, count do call('SET', keys[i], writes[i], 'PX', writes[i + count]) end
  end
  local a, b, c = states[1], states[2], states[3]
  local reply = pack(kInstant, now + admits) ..
    (a and kFoundState or kNoState) .. (a or '') ..
    (count > 1 and (b and kFoundState or kNoState) or '') .. (b or '') ..
    (count > 2 and (c and kFoundState or kNoState) or '') .. (c or '')
  for i = 4, count do
    local state = states[i]
    reply = reply .. (state and kFoundState or kNoState) .. (state or '')
  end
  return reply
until true
