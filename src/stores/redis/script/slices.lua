part 'slice_of'
-- Returns the slice of an instant, floor(at * n / period), and the phase: how far into the slice
-- the instant is, in 1/n ticks.
local function slice_of(at, n, period)
  local into = at % period
  local passed = (at - into) / period * n
  local scaled = into * n
  if scaled >= kExact then
    local whole, phase = wide(n, into, 0, period)
    return passed + whole, phase
  end
  local phase = scaled % period
  return passed + (scaled - phase) / period, phase
end

part 'sliding_window_counter'
-- Returns the units of the newest n slices, and of the oldest slice the share that the window still
-- covers, or all of them if `whole` is 1.
local function units_in(counts, n, period, phase, whole)
  local units = 0
  for age = 1, n do units = units + (counts[age] or 0) end
  local oldest = counts[n + 1] or 0
  if oldest == 0 or whole == 1 then return units + oldest end
  local share = oldest * (period - phase)
  if share < kExact then return units + (share + -share % period) / period end
  local floor, rest = wide(oldest, period - phase, 0, period)
  if rest > 0 then floor = floor + 1 end
  return units + floor
end

-- sliding_window_counter: see core/sliding_window_counter.h.
local function sliding_window_counter(key, arg, now, verb, state)
  local own_kind = kSlicesKind
  local cost, capacity, period, n, whole = struct.unpack(kSlicesArgument, arg, 2)
  -- The instant decided at, its slice and phase, and the units by slice as of then, the newest first.
  if not state then state = redis.pcall('GET', key) end
  local at, slice, phase, counts = now, nil, nil, {}
  if state then
    local size = #state - kSlicesHeadSize
    if size < 0 or size % kSliceCountSize ~= 0 then return nil, state end
    local kind, changed, old_period, old_n, forgotten = struct.unpack(kSlicesHead, state)
    include 'check_header'
    if old_n < 1 or old_n > kMaxSlices or size > kSliceCountSize * (old_n + 1) or
        old_period < kMinPeriod or old_period >= kEndOfSpans then
      return nil, state
    end
    if known_until > now then
      local held = {struct.unpack('<' .. string.rep(kSliceCount, size / kSliceCountSize), state,
                                  kSlicesHeadSize + 1)}
      held[#held] = nil -- where struct.unpack ended
      if old_n ~= n or old_period ~= period then
        -- Counted by another grid: all that counted then is of the slice of the last change.
        if verb == kGiveBack then return state, true end
        local _, old_phase = slice_of(changed, old_n, old_period)
        local units = units_in(held, old_n, old_period, old_phase, whole)
        held = {units < kMaxUnits and units or kMaxUnits}
      end
      if changed > now then at = changed end
      slice, phase = slice_of(at, n, period)
      local shift = slice - slice_of(changed, n, period)
      for age = 0, shift < n and shift or n do counts[age + 1] = 0 end
      for i = 1, #held do
        if shift + i > n + 1 then break end
        counts[shift + i] = held[i]
      end
    end
  end
  if not slice then slice, phase = slice_of(at, n, period) end
  if cost == 0 or verb == kReset then return state, true end
  local used = units_in(counts, n, period, phase, whole)
  local left = capacity - used
  include 'at_most'
  if verb == kTake or verb == kPeek or verb == kTakeAtMost or verb == kReserve then
    if used + cost > capacity then return state, false end
    counts[1] = (counts[1] or 0) + cost
  elseif verb == kCharge then
    local room = kMaxUnits - units_in(counts, n, period, phase, 1)
    if capacity == 0 or room <= 0 then return state, true end
    counts[1] = (counts[1] or 0) + (cost < room and cost or room)
  elseif capacity == 0 or used == 0 then
    return state, true
  else
    local first, final = 1, #counts
    if verb == kGiveBack then
      local taken_at = struct.unpack(kInstant, arg, 2 + kSlicesArgumentSize)
      first = slice - slice_of(taken_at, n, period) + 1
      final = first
      if first < 1 or first > #counts then return state, true end
    end
    for age = first, final do
      local given = counts[age] < cost and counts[age] or cost
      counts[age] = counts[age] - given
      cost = cost - given
    end
  end
  while #counts > 0 and counts[#counts] == 0 do counts[#counts] = nil end
  local newest = 1
  while counts[newest] == 0 do newest = newest + 1 end
  local full = at
  if counts[newest] then
    -- The first tick of the slice in which the newest count is out of the window.
    local part = period % n
    local left = (2 - newest) * part - phase
    full = at + period + (period - part) / n * (2 - newest) + (left + -left % n) / n
  end
  include 'seal'
  return state, true,
         struct.pack(kSlicesHead .. string.rep(kSliceCount, #counts), own_kind, at, period, n,
                     forgotten, unpack(counts)),
         ends - now
end
