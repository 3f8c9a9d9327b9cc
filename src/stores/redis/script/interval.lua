-- token_bucket with refill: interval: see core/token_bucket.h. aux: ticks since the last refill.
local function interval(key, arg, now, verb, state)
  local cost, capacity, refill, period, tag = struct.unpack('<I6I4I4I6I4', arg, 2)
  if not state then state = redis.pcall('GET', key) end
  local at, units, aux = now, 0, 0
  if state then
    if #state ~= 27 then return nil, state end
    local magic, last, since, spent, numbers, forgotten = struct.unpack('<I2I7I6I4I4I4', state)
    if magic ~= 0x11C1 or last >= 4503599627370496 or since >= 35184372088832 or
        last > forgotten * 1048576 and forgotten < 4294967294 then
      return nil, state
    end
    if forgotten * 1048576 > now or forgotten >= 4294967294 then
      units, aux = spent, since
      if last > now then at = last end
      if numbers ~= tag then
        if numbers % 2 == 0 then
          if aux > 0 and units < 4294967295 then units = units + 1 end
          aux = 0
        elseif aux >= period then
          aux = 0
        end
        if refill > 0 then
          local most = (4503599627370496 - 4503599627370496 % period) / period * refill
          if units > most then units = most end
        end
      end
      if units == 0 then
        aux = 0
      elseif refill > 0 then
        local ticks = aux + at - last
        aux = ticks % period
        local back = (ticks - aux) / period * refill
        if back < units then units = units - back else units, aux = 0, 0 end
      end
    end
  end
  if cost == 0 or verb == 3 then return state, true end
  if verb < 2 then
    units = units + cost
    if units > capacity then return state, false end
  else
    if verb == 4 then
      local taken_at = struct.unpack('<I7', arg, 26)
      if taken_at > at then return state, true end -- made anew since
      -- What was refilled up to the last refill.
      local ticks = at - aux - taken_at
      if ticks > 0 then cost = cost - (ticks + -ticks % period) / period * refill end
    end
    if cost <= 0 or capacity == 0 or units == 0 then return state, true end
    if cost >= units then units, aux = 0, 0 else units = units - cost end
  end
  local full = at + (units + -units % refill) / refill * period - aux + 1048575
  local forgotten = (full - full % 1048576) / 1048576
  if forgotten > 4294967294 then forgotten = 4294967294 end
  return state, true, struct.pack('<I2I7I6I4I4I4', 0x11C1, at, aux, units, tag, forgotten),
         forgotten * 1048576 - now
end
