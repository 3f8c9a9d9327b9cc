-- The short way for sliding_window_log: a take, where the value's first bytes hold all that is
-- needed, which is how most of them go. The others go the long way, any_log(), without whose
-- functions this one is made. The bytes: see open_log().
local function short_log(key, arg, now, verb)
  local cost, capacity, period = struct.unpack('<I6I4I6', arg, 2)
  local most = capacity > 102 and 384 or 1088
  local value = redis.pcall('GETRANGE', key, '0', most == 384 and '383' or '1087')
  if verb ~= 0 or cost == 0 or #value < 74 then return any_log(key, arg, now, verb, value) end
  local magic, last, forgotten, expires, space, _, room, head, count, before, after, oldest, newest,
    first, blocks, front, cached, back = struct.unpack('<I2I7I4I7I2I2I4I4I4I4I4I6I6I4I1I1I1I1', value)
  if magic ~= 0x13C1 or last > now or space > 0 or count == 0 or head > room or
      forgotten * 1048576 <= now or forgotten >= 4294967294 then
    return any_log(key, arg, now, verb, value)
  end
  -- The oldest entry read is at bytes[at], the last one ends at bytes[stop].
  local bytes, at, stop, in_ring = value, 65, 64 + count * 10, count
  if blocks == 0 then
    if head > 0 or count ~= room or stop > most - 10 or #value ~= stop then
      return any_log(key, arg, now, verb, value)
    end
  else
    at, stop, in_ring = 225 + front * 10, 224 + cached * 10, count - back
    if #value ~= most or stop > 384 or back > 16 or in_ring < 1 or in_ring > room then
      return any_log(key, arg, now, verb, value)
    end
  end

  local gone, is_live = 0, (now - oldest) % 281474976710656 < period
  while not is_live and gone < in_ring do
    if at > stop then
      -- The next ones of the ring, as many as are kept in front.
      local slot = (head + gone) % room
      local run = in_ring - gone
      if run > 16 then run = 16 end
      if run > room - slot then run = room - slot end
      bytes = redis.call('GETRANGE', key, 384 + slot * 10, 383 + (slot + run) * 10)
      at, stop = 1, run * 10
      if #bytes ~= stop then return any_log(key, arg, now, verb, value) end
    end
    oldest, first = struct.unpack('<I6I4', bytes, at)
    is_live = (now - oldest) % 281474976710656 < period
    if not is_live then
      before = first
      at, gone = at + 10, gone + 1
    end
  end
  local units, age = (after - before) % 4294967296, (now - newest) % 281474976710656
  if is_live then
    if age >= period then return any_log(key, arg, now, verb, value) end
  elseif blocks == 1 or units > 0 then
    return any_log(key, arg, now, verb, value)
  end
  local final = now - age
  if units + cost > capacity then
    local wait = 0
    if cost <= capacity then
      if units + cost - capacity > (first - before) % 4294967296 then
        return any_log(key, arg, now, verb, value)
      end
      wait = period - (now - oldest) % 281474976710656
    end
    return struct.pack('<I7I5I7I4I7I1', now, units, final, forgotten, wait, 0), false
  end
  if final == now then return any_log(key, arg, now, verb, value) end
  local said = struct.pack('<I7I5I7I4I7I1', now, units, final, forgotten, 0, 0)
  local low = now % 281474976710656
  local full = now + period + 1048575
  local ends = full - full % 1048576
  if ends > 4503599625273344 then ends = 4503599625273344 end
  forgotten = ends / 1048576
  after = (after + cost) % 4294967296
  if not is_live then oldest, first = low, after end
  count = count - gone + 1
  if blocks == 0 then
    return said, true,
           struct.pack('<I2I7I4I7I2I2I4I4I4I4I4I6I6I4I4', 0x13C1, now, forgotten, ends, 0, 0, count, 0,
                       count, before, after, oldest, low, first, 0) ..
             string.sub(value, at, stop) .. struct.pack('<I6I4', low, after),
           ends - now
  end

  head, in_ring = (head + gone) % room, in_ring - gone
  local others, kept = true, string.sub(value, 65, 64 + back * 10)
  if back == 16 then
    -- Those that wait in the back go to the ring.
    local slot = (head + in_ring) % room
    if in_ring + 16 > room or slot + 16 > room or redis.call('STRLEN', key) ~= 384 + room * 10 then
      return any_log(key, arg, now, verb, value)
    end
    others, kept, back = {{'SETRANGE', key, 384 + slot * 10, kept}}, '', 0
  end
  local cache = ''
  if bytes == value then
    front = (at - 225) / 10
  else
    front, cached = (at - 1) / 10, stop / 10
    cache = string.rep('\0', 150 - #kept) .. bytes
  end
  local is_kept_long = expires >= ends
  if not is_kept_long then
    ends = ends + (ends - now - (ends - now) % 8) / 8
    expires = ends
  end
  return said, true,
         struct.pack('<I2I7I4I7I2I2I4I4I4I4I4I6I6I4I1I1I1I1', 0x13C1, now, forgotten, expires, 0, 0,
                     room, head, count, before, after, oldest, low, first, 1, front, cached, back + 1) ..
           kept .. struct.pack('<I6I4', low, after) .. cache,
         not is_kept_long and ends - now or nil, others
end
