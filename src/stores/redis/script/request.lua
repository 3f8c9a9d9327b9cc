-- Any request. ARGV: the verb, the instant (2^56 - 1: the server's time) and how long keys are kept
-- where it is stated, in ms; then for each key its charge, whose first byte tells who looks.
local verb, now, stated_ms = struct.unpack('<I1I7I6', ARGV[1])
if now == 72057594037927935 then
  local time = redis.call('TIME')
  now, stated_ms = time[1] * 1000000 + time[2], nil
end
local count, keys, call = #KEYS, KEYS, redis.call
-- Absent ones are asked for again: MGET also says so of what is no string.
local states = reads_whole and count > 1 and call('MGET', unpack(keys)) or {}
-- With room for three, so that most requests need no larger ones.
local said, values, times = {0, 0, 0, 0, 0, 0, 0}, {0, 0, 0}, {0, 0, 0}
local more, all_admit = nil, true
for i = 1, count do
  local arg = ARGV[i + 1]
  local state, admits, value, keep_for, others =
    look[string.byte(arg)](keys[i], arg, now, verb, states[i])
  if state == nil then return foreign(keys[i], admits) end
  said[i * 2] = state and #state or 0
  said[i * 2 + 1] = state or ''
  values[i], times[i] = value or false, keep_for or false
  if others then
    more = more or {}
    more[i] = others
  end
  all_admit = all_admit and admits
end
if verb == 3 then
  call('DEL', unpack(keys))
elseif verb ~= 1 and all_admit then
  for i = 1, count do
    local key = keys[i]
    local value, ms, others = values[i], times[i], more and more[i]
    if ms then
      -- Redis counts from its clock's last whole ms.
      ms = stated_ms or (ms < 0 and 1 or (ms + -ms % 1000) / 1000 + 1)
    end
    if others then
      call('SETRANGE', key, '0', value)
      if others ~= true then
        for _, command in ipairs(others) do call(unpack(command)) end
      end
      if ms then call('PEXPIRE', key, ms) end
    elseif value then
      call('SET', key, value, 'PX', ms)
    end
  end
end
said[1] = all_admit and now + 4503599627370496 or now
return struct.pack('<I7' .. string.rep('I2c0', count), unpack(said, 1, count * 2 + 1))
