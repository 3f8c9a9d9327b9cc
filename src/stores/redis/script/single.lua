-- A take of one charge at the server's time, which is what most requests are.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local key = KEYS[1]
local state, admits, value, keep_for = look[1](key, ARGV[1], now, 0)
if state == nil then return foreign(key, admits) end
if value then
  if type(value) == 'table' then
    for _, command in ipairs(value) do redis.call(unpack(command)) end
    if keep_for then redis.call('PEXPIRE', key, (keep_for + -keep_for % 1000) / 1000 + 1) end
  else
    if keep_for < 0 then keep_for = 0 end
    -- Redis counts from its clock's last whole ms.
    redis.call('SET', key, value, 'PX', (keep_for + -keep_for % 1000) / 1000 + 1)
  end
end
if admits then now = now + 4503599627370496 end
return struct.pack('<I7c0', now, state or '')
