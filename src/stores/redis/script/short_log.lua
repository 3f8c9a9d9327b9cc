-- The short way for sliding_window_log: a take on a log that lies in the value's first 1056 bytes,
-- the oldest entry in front, which is how most logs lie. What is else goes the long way, without
-- whose functions this one is made.
local function short_log(key, arg, now, verb)
  local cost, capacity, period = struct.unpack('<I6I4I6', arg, 2)
  local value = redis.pcall('GETRANGE', key, '0', '1055')
  if verb ~= 0 or cost == 0 or #value < 66 then return any_log(key, arg, now, verb, value) end
  local magic, last, forgotten, expires, space, _, room, head, count, before, after, oldest, newest =
    struct.unpack('<I2I7I4I7I2I2I4I4I4I4I4I6I6', value)
  local final = 56 + count * 10
  if magic ~= 0x13C1 or last > now or space > 0 or head > 0 or count ~= room or count == 0 or
      #value ~= final or final > 1046 or forgotten * 1048576 <= now or forgotten >= 4294967294 then
    return any_log(key, arg, now, verb, value)
  end
  local at = 57
  while (now - oldest) % 281474976710656 >= period do
    _, before = struct.unpack('<I6I4', value, at)
    at = at + 10
    if at > final then break end
    oldest = struct.unpack('<I6', value, at)
  end
  local units, age = (after - before) % 4294967296, (now - newest) % 281474976710656
  local youngest = now - age
  if at > final then
    if units > 0 then return any_log(key, arg, now, verb, value) end
  elseif age >= period then
    return any_log(key, arg, now, verb, value)
  end
  if units + cost > capacity then
    local wait = 0
    if cost <= capacity then
      local excess = units + cost - capacity
      local i, instant, sum = at, nil, nil
      repeat
        if i > final then return any_log(key, arg, now, verb, value) end
        instant, sum = struct.unpack('<I6I4', value, i)
        i = i + 10
      until (sum - before) % 4294967296 >= excess
      wait = period - (now - instant) % 281474976710656
      if wait <= 0 then return any_log(key, arg, now, verb, value) end
    end
    return struct.pack('<I7I5I7I4I7I1', now, units, youngest, forgotten, wait, 0), false
  end
  if youngest == now then return any_log(key, arg, now, verb, value) end
  local said = struct.pack('<I7I5I7I4I7I1', now, units, youngest, forgotten, 0, 0)
  local low = now % 281474976710656
  local full = now + period + 1048575
  local ends = full - full % 1048576
  if ends > 4503599625273344 then ends = 4503599625273344 end
  if at > final then oldest = low end
  after = (after + cost) % 4294967296
  count = (final - at + 1) / 10 + 1
  return said, true,
         struct.pack('<I2I7I4I7I2I2I4I4I4I4I4I6I6', 0x13C1, now, ends / 1048576, ends, 0, 0, count, 0,
                     count, before, after, oldest, low) ..
           string.sub(value, at, final) .. struct.pack('<I6I4', low, after),
         ends - now
end
