-- fixed_window: see core/fixed_window.h. aux: ticks since the window opened.
local function fixed_window(key, arg, now, verb, state)
  local cost, capacity, period, tag, by_clock = struct.unpack('<I6I4I6I4I1', arg, 2)
  if not state then state = redis.pcall('GET', key) end
  local at, units, since = now, 0, 0
  if state then
    if #state ~= 27 then return nil, state end
    local magic, last, aux, used, _, forgotten = struct.unpack('<I2I7I6I4I4I4', state)
    if magic ~= 0x12C1 or last >= 4503599627370496 or aux >= 35184372088832 or
        last > forgotten * 1048576 and forgotten < 4294967294 then
      return nil, state
    end
    if forgotten * 1048576 > now or forgotten >= 4294967294 then
      if last > now then at = last end
      if by_clock == 1 then
        aux = last % period
      elseif aux >= period then
        aux = 0
      end
      since = aux + at - last
      if since < period then units = used end
    end
  end
  if units == 0 then
    since = 0
    if by_clock == 1 then since = at % period end
  end
  if cost == 0 or verb == 3 then return state, true end
  local full = at
  if verb < 2 then
    units = units + cost
    if units > capacity then return state, false end
    full = at + period - since
  else
    if verb == 4 then
      local taken_at = struct.unpack('<I7', arg, 23)
      if taken_at < at - since or taken_at > at then return state, true end
    end
    if capacity == 0 or units == 0 then return state, true end
    if cost < units then
      units = units - cost
      full = at + period - since
    else
      units, since = 0, 0
      if by_clock == 1 then since = at % period end
    end
  end
  full = full + 1048575
  local forgotten = (full - full % 1048576) / 1048576
  if forgotten > 4294967294 then forgotten = 4294967294 end
  return state, true, struct.pack('<I2I7I6I4I4I4', 0x12C1, at, since, units, tag, forgotten),
         forgotten * 1048576 - now
end
