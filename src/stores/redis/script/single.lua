-- A take of one charge at the server's time, which is what most requests are.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local key = KEYS[1]
local state, admits, value, keep_for, others = look[1](key, ARGV[1], now, 0)
if state == nil then return foreign(key, admits) end
if value then
  local ms
  if keep_for then
    if keep_for < 0 then keep_for = 0 end
    -- Redis counts from its clock's last whole ms.
    ms = (keep_for + -keep_for % 1000) / 1000 + 1
  end
  if others then
    redis.call('SETRANGE', key, '0', value)
    if others ~= true then
      for _, command in ipairs(others) do redis.call(unpack(command)) end
    end
    if ms then redis.call('PEXPIRE', key, ms) end
  else
    redis.call('SET', key, value, 'PX', ms)
  end
end
if admits then now = now + 4503599627370496 end
return struct.pack('<I7c0', now, state or '')
