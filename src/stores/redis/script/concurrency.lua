part 'concurrency'
-- Returns those of the permits that end after `at`, their units, and their first and last end; and
-- what the head says of all of them: their units (-1 if a permit has none), and the same ends.
local function live_permits(held, at)
  local units, first, last, total, least, most = 0, 0, 0, 0, 0, 0
  local is_all, is_right = true, true
  for i = 1, #held, kPermitSize do
    local ends, count = struct.unpack(kPermitHead, held, i)
    total = total + count
    if count == 0 then is_right = false end
    if i == 1 or ends < least then least = ends end
    if ends > most then most = ends end
    if ends > at then
      units = units + count
      if first == 0 or ends < first then first = ends end
      last = most
    else
      is_all = false
    end
  end
  if not is_all then
    local live = {}
    for i = 1, #held, kPermitSize do
      if struct.unpack(kPermitHead, held, i) > at then
        live[#live + 1] = string.sub(held, i, i + (kPermitSize - 1))
      end
    end
    held = table.concat(live)
  end
  return held, units, first, last, is_right and total or -1, least, most
end

-- Returns the permits with another end of those with this name, or without them; their units, and
-- their first and last end. Nil if there is none.
local function with_end(held, id, ends)
  local parts, from, units, first, last = {}, 1, 0, 0, 0
  local at = string.find(held, id, 1, true)
  while at do
    local begin = at - (kPermitSize - kPermitIdSize)
    if (begin - 1) % kPermitSize == 0 then
      local before, count = struct.unpack(kPermitHead, held, begin)
      units = units + count
      if first == 0 or before < first then first = before end
      if before > last then last = before end
      parts[#parts + 1] = string.sub(held, from, begin - 1)
      if ends then parts[#parts + 1] = struct.pack(kPermitHead, ends, count) .. id end
      from = begin + kPermitSize
    end
    at = string.find(held, id, at + 1, true)
  end
  if from == 1 then return nil end
  parts[#parts + 1] = string.sub(held, from)
  return table.concat(parts), units, first, last
end

-- Takes units from the newest permits.
local function without_newest(held, given)
  local i, rest = #held - (kPermitSize - 1), ''
  while i >= 1 and given > 0 do
    local ends, units = struct.unpack(kPermitHead, held, i)
    if units > given then
      rest = struct.pack(kPermitHead, ends, units - given) ..
        string.sub(held, i + (kPermitSize - kPermitIdSize), i + (kPermitSize - 1))
    end
    i, given = i - kPermitSize, given - units
  end
  return string.sub(held, 1, i + (kPermitSize - 1)) .. rest
end

-- Returns the instant from which that many units are back.
local function end_of(held, first, units)
  if units <= 1 then return first end
  local ends = {}
  for i = 1, #held, kPermitSize do
    ends[#ends + 1] = {struct.unpack(kPermitHead, held, i)}
  end
  table.sort(ends, function(a, b) return a[1] < b[1] end)
  for _, permit in ipairs(ends) do
    units = units - permit[2]
    if units <= 0 then return permit[1] end
  end
end

-- concurrency: see core/concurrency.h.
local function concurrency(key, arg, now, verb, state)
  local cost, capacity, lease = struct.unpack(kPermitsArgument, arg, 2)
  local id = string.sub(arg, 2 + kPermitsArgumentSize, 1 + kPermitsArgumentSize + kPermitIdSize)
  local is_change = verb == kRelease or verb == kExtend or verb == kGiveBack
  if not state then state = redis.pcall('GET', key) end
  local at, held, units, first, last, is_known = now, '', 0, 0, 0, false
  if state then
    local size = #state - kPermitsHeadSize
    if size < 0 or size % kPermitSize ~= 0 then return nil, state end
    local kind, changed, first_end, last_end, count = struct.unpack(kPermitsHead, state)
    if kind ~= kPermitsKind or changed >= kEndOfInstants or (size == 0) ~= (count == 0) or
        last_end < first_end or last_end >= kEndOfInstants * 2 then
      return nil, state
    end
    -- A limit of 0 reads no permits, except to change one that was taken before.
    is_known = capacity > 0 or is_change
    if is_known then
      if changed > now then at = changed end
      held, units, first, last = string.sub(state, kPermitsHeadSize + 1), count, first_end, last_end
      if held ~= '' and (first <= at or is_change or verb == kRefund) then
        local total, least, most
        held, units, first, last, total, least, most = live_permits(held, at)
        if total ~= count or least ~= first_end or most ~= last_end then return nil, state end
      end
    end
  end
  if verb == kTakeAtMostOfAll then return state, capacity - units end
  local function reply_of(wait, left, final, gone)
    if not is_known then return false end
    return struct.pack(kPermitsReply, at, units, last, wait, left, final, gone)
  end
  local after, left, sooner, final
  local was = 0
  if is_change then
    local new_end = verb == kExtend and at + lease
    if verb == kGiveBack and cost == 0 then  -- an extension: the lease ends when it did before
      new_end = struct.unpack(kInstant, arg, 2 + kPermitsArgumentSize + kPermitIdSize) + lease
      if new_end <= at then new_end = false end
    end
    local count, least, most
    after, count, least, most = with_end(held, id, new_end)
    if not after then return reply_of(0, units, last, 1), verb == kGiveBack end
    if verb == kExtend then was = most - at end
    if least > first and most < last then
      left, sooner, final = units - (new_end and 0 or count), first, last
      if new_end and new_end < sooner then sooner = new_end end
      if new_end and new_end > final then final = new_end end
    else
      after, left, sooner, final = live_permits(after, at)
    end
  elseif verb == kReset or cost == 0 or verb == kRefund and held == '' then
    return reply_of(0, units, last, 0), true
  elseif verb == kRefund then
    after, left, sooner, final = live_permits(without_newest(held, cost), at)
  else
    if verb == kTakeAtMost then
      local left = capacity - units
      include 'at_most'
    end
    if units + cost > capacity then
      local wait = 0
      if cost <= capacity then
        local back = units + cost - capacity
        if back > 1 then
          local _, all, least, most, total = live_permits(held, at)
          if total ~= units or all ~= units or least ~= first or most ~= last then return nil, state end
        end
        wait = end_of(held, first, back) - at
      end
      return reply_of(wait, units, last, 0), false
    end
    after = held .. struct.pack(kPermitHead, at + lease, cost) .. id
    left, sooner, final = units + cost, at + lease, at + lease
    if held ~= '' and first < sooner then sooner = first end
    if last > final then final = last end
  end
  return reply_of(was, left, final, 0), true,
         struct.pack(kPermitsHead, kPermitsKind, at, sooner, final, left) .. after, final - now
end
