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
  include 'slices_read'
  if cost == 0 or verb == kReset then return state, true end
  local used = units_in(counts, n, period, phase, whole)
  if verb == kTakeAtMostOfAll then return state, capacity - used end
  if verb == kTakeAtMost then
    local left = capacity - used
    include 'at_most'
  end
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
