-- Returns those of the permits that end after `at`, their units, and their first and last end.
local function live_permits(held, at)
  local live, units, first, last = {}, 0, 0, 0
  for i = 1, #held, kPermitSize do
    local ends, count = struct.unpack(kPermit, held, i)
    if ends > at and count > 0 then
      live[#live + 1] = string.sub(held, i, i + (kPermitSize - 1))
      units = units + count
      if first == 0 or ends < first then first = ends end
      if ends > last then last = ends end
    end
  end
  return table.concat(live), units, first, last
end

-- Returns the permits with another end of the one with this name, or without it. Nil if there is
-- none.
local function with_end(held, id, ends)
  if not string.find(held, id, 1, true) then return nil end
  local all, is_found = {}, false
  for i = 1, #held, kPermitSize do
    local permit = string.sub(held, i, i + (kPermitSize - 1))
    if string.sub(permit, -kPermitIdSize) == id then
      local _, units = struct.unpack(kPermit, permit)
      permit = ends and struct.pack(kPermit, ends, units) .. id or ''
      is_found = true
    end
    all[#all + 1] = permit
  end
  return is_found and table.concat(all) or nil
end

-- Takes units from the newest permits, which can have 0 units then.
local function without_newest(held, given)
  local all = {}
  for i = #held - (kPermitSize - 1), 1, -kPermitSize do
    local ends, units = struct.unpack(kPermit, held, i)
    local part = units < given and units or given
    given = given - part
    all[(i - 1) / kPermitSize + 1] = struct.pack(kPermit, ends, units - part) ..
      string.sub(held, i + (kPermitSize - kPermitIdSize), i + (kPermitSize - 1))
  end
  return table.concat(all)
end

-- Returns the instant from which so many units are back. Nil if the permits have fewer.
local function end_of(held, first, units)
  if units <= 1 then return first end
  local ends = {}
  for i = 1, #held, kPermitSize do
    ends[#ends + 1] = {struct.unpack(kPermit, held, i)}
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
      if held ~= '' and first <= at then held, units, first, last = live_permits(held, at) end
    end
  end
  if verb == kTakeAtMostOfAll then return state, capacity - units end
  local function reply_of(wait, left, final, gone)
    if not is_known then return false end
    return struct.pack(kPermitsReply, at, units, last, wait, left, final, gone)
  end
  local after
  if is_change then
    after = with_end(held, id, verb == kExtend and at + lease)
    if not after then return reply_of(0, units, last, 1), verb == kGiveBack end
  elseif verb == kReset or cost == 0 or verb == kRefund and held == '' then
    return reply_of(0, units, last, 0), true
  elseif verb == kRefund then
    after = without_newest(held, cost)
  else
    if verb == kTakeAtMost then
      local left = capacity - units
      include 'at_most'
    end
    if units + cost > capacity then
      local wait = 0
      if cost <= capacity then
        local back = end_of(held, first, units + cost - capacity)
        if not back then return nil, state end
        wait = back - at
      end
      return reply_of(wait, units, last, 0), false
    end
    after = held .. struct.pack(kPermit, at + lease, cost) .. id
  end
  local left, sooner, final
  if is_change or verb == kRefund then
    after, left, sooner, final = live_permits(after, at)
  else
    left, sooner, final = units + cost, at + lease, at + lease
    if held ~= '' and first < sooner then sooner = first end
    if last > final then final = last end
  end
  return reply_of(0, left, final, 0), true,
         struct.pack(kPermitsHead, kPermitsKind, at, sooner, final, left) .. after, final - now
end
