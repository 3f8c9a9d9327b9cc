-- The units of the newest n slices, and of the oldest the share that the window still covers.
local function units_in(counts, n, period, phase, whole)
  local units = 0
  for age = 1, n do units = units + (counts[age] or 0) end
  local oldest = counts[n + 1] or 0
  if oldest == 0 or whole == 1 then return units + oldest end
  local share = oldest * (period - phase)
  if share < 4503599627370496 then return units + (share + -share % period) / period end
  local floor, rest = wide(oldest, period - phase, 0, period)
  if rest > 0 then floor = floor + 1 end
  return units + floor
end

-- sliding_window_counter: see core/sliding_window_counter.h. Units by slice, the newest first.
local function sliding_window_counter(key, arg, now, verb, state)
  local cost, capacity, period, n, whole = struct.unpack('<I6I4I6I2I1', arg, 2)
  if not state then state = redis.pcall('GET', key) end
  local at, last, held = now, now, nil
  if state then
    local size = #state - 21
    if size < 0 or size % 4 ~= 0 or size > 4004 then return nil, state end
    local magic, changed, old_period, old_n, forgotten = struct.unpack('<I2I7I6I2I4', state)
    if magic ~= 0x14C1 or changed >= 4503599627370496 or old_n < 1 or old_n > 1000 or
        old_period < 1000 or old_period >= 35184372088832 or size > 4 * (old_n + 1) or
        changed > forgotten * 1048576 and forgotten < 4294967294 then
      return nil, state
    end
    if forgotten * 1048576 > now or forgotten >= 4294967294 then
      last = changed
      if last > now then at = last end
      held = {struct.unpack('<' .. string.rep('I4', size / 4), state, 22)}
      held[size / 4 + 1] = nil -- where struct.unpack ended
      if old_n ~= n or old_period ~= period then
        if verb == 4 then return state, true end
        local _, phase = slice_of(last, old_n, old_period)
        local converted = units_in(held, old_n, old_period, phase, whole)
        if converted > 4294967295 then converted = 4294967295 end
        held = {converted}
      end
    end
  end
  local slice, phase = slice_of(at, n, period)
  local counts = {}
  if held then
    local shift = slice - slice_of(last, n, period)
    for age = 0, shift < n and shift or n do counts[age + 1] = 0 end
    for i = 1, #held do
      if shift + i > n + 1 then break end
      counts[shift + i] = held[i]
    end
  end
  if cost == 0 or verb == 3 then return state, true end
  local used = units_in(counts, n, period, phase, whole)
  if verb < 2 then
    if used + cost > capacity then return state, false end
    counts[1] = (counts[1] or 0) + cost
  elseif capacity == 0 or used == 0 then
    return state, true
  else
    local first, final = 1, #counts
    if verb == 4 then
      first = slice - slice_of(struct.unpack('<I7', arg, 21), n, period) + 1
      final = first
      if first < 1 or first > #counts then return state, true end
    end
    for age = first, final do
      local given = counts[age]
      if given > cost then given = cost end
      counts[age] = counts[age] - given
      cost = cost - given
    end
  end
  while #counts > 0 and counts[#counts] == 0 do counts[#counts] = nil end
  local newest = 1
  while counts[newest] == 0 do newest = newest + 1 end
  local full = at
  if counts[newest] then
    -- The first tick of the slice in which the newest counts no more.
    local part = period % n
    local left = (2 - newest) * part - phase
    full = at + period + (period - part) / n * (2 - newest) + (left + -left % n) / n
  end
  full = full + 1048575
  local forgotten = (full - full % 1048576) / 1048576
  if forgotten > 4294967294 then forgotten = 4294967294 end
  return state, true,
         struct.pack('<I2I7I6I2I4' .. string.rep('I4', #counts), 0x14C1, at, period, n, forgotten,
                     unpack(counts)),
         forgotten * 1048576 - now
end
