-- token_bucket, leaky_bucket and gcra: see core/bucket.h. Units spent, and aux / p of one.
-- Each of these functions looks at one counter, whose value is `state` where that is known already,
-- and answers
--   what the reply says of it (false: nothing is known), whether it admits, and where there is
--   something to write: the value, for how many µs from now it is to be kept, and where the value
--   is only the beginning of what is there, `true` or the other commands that write;
-- or, where its key holds something else, nil and that.
local function bucket(key, arg, now, verb, state)
  local cost, capacity, l, p, tag = struct.unpack('<I6I4I4I6I4', arg, 2)
  if not state then state = redis.pcall('GET', key) end
  local at, units, aux = now, 0, 0
  if state then
    if #state ~= 27 then return nil, state end
    local magic, last, fraction, spent, numbers, forgotten = struct.unpack('<I2I7I6I4I4I4', state)
    if magic ~= 0x11C1 or last >= 4503599627370496 or fraction >= 35184372088832 or
        last > forgotten * 1048576 and forgotten < 4294967294 then
      return nil, state
    end
    if forgotten * 1048576 > now or forgotten >= 4294967294 then
      units, aux = spent, fraction
      if last > now then at = last end
      if numbers ~= tag then
        if aux > 0 and numbers % 2 == 0 and units < 4294967295 then units = units + 1 end
        aux = 0
        if l > 0 then
          local most = wide(l, 4503599627370496, 0, p)
          if units > most then units = most end
        end
      end
      local level = units * p + aux
      if level < 4503599627370496 then
        level = level - (at - last) * l
        if level < 0 then level = 0 end
        aux = level % p
        units = (level - aux) / p
      else
        local whole, part = wide(l, at - last, 0, p)
        units, aux = units - whole, aux - part
        if aux < 0 then units, aux = units - 1, aux + p end
        if units < 0 then
          units, aux = 0, 0
        elseif aux >= p then
          local rest = aux % p
          units, aux = units + (aux - rest) / p, rest
        end
      end
    end
  end
  if cost == 0 or verb == 3 then return state, true end
  if verb < 2 then
    units = units + cost
    if aux > 0 then
      if units >= capacity then return state, false end
    elseif units > capacity then
      return state, false
    end
  elseif capacity == 0 or units + aux == 0 then
    return state, true
  elseif verb == 4 then
    -- What has not drained of it since.
    local taken_at = struct.unpack('<I7', arg, 26)
    if taken_at > at then return state, true end -- made anew since
    local whole, part = wide(l, at - taken_at, 0, p)
    if cost <= whole then return state, true end
    units, aux = units - (cost - whole), aux + part
    if aux >= p then units, aux = units + 1, aux - p end
    if units < 0 then units, aux = 0, 0 end
  elseif cost > units then
    units, aux = 0, 0
  else
    units = units - cost
  end
  local level = units * p + aux
  local full, part
  if level < 4503599627370496 then
    part = level % l
    full = (level - part) / l
  else
    full, part = wide(units, p, aux, l)
  end
  if part > 0 then full = full + 1 end
  full = at + full + 1048575
  local forgotten = (full - full % 1048576) / 1048576
  if forgotten > 4294967294 then forgotten = 4294967294 end
  return state, true, struct.pack('<I2I7I6I4I4I4', 0x11C1, at, aux, units, tag, forgotten),
         forgotten * 1048576 - now
end
