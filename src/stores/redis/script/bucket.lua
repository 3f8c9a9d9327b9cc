-- token_bucket, leaky_bucket and gcra: see core/bucket.h. A bucket loses l/p units each tick; aux
-- is a fraction of a unit, in 1/p.
local function bucket(key, arg, now, verb, state)
  local own_kind = kBucketKind
  local cost, capacity, l, p, checksum = struct.unpack(kBucketArgument, arg, 2)
  include 'fixed_state_read'
  if units + aux > 0 then
    if old_checksum ~= checksum then
      -- Counted under another limit: whole units, no more than can ever drain.
      if aux > 0 and old_checksum % 2 == 0 and units < kMaxUnits then units = units + 1 end
      aux = 0
      if l > 0 then
        local most = wide(l, kMaxWait, 0, p)
        if units > most then units = most end
      end
    end
    local level = units * p + aux
    if level < kExact then
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
  if cost == 0 or verb == kReset then return state, true end
  local spent = aux > 0 and units + 1 or units
  if verb == kTakeAtMostOfAll then return state, capacity - spent end
  if verb == kTakeAtMost then
    local left = capacity - spent
    include 'at_most'
  end
  if verb == kTake or verb == kPeek or verb == kTakeAtMost then
    if spent + cost > capacity then return state, false end
    units = units + cost
  elseif verb >= kCharge then
    local most, full_aux, max_wait, is_late = kMaxUnits, 0, 0, false
    if (spent + cost) * p > l * (kMaxWait / 2) then most = wide(l, kMaxWait, 0, p) end
    if verb == kReserve and spent + cost > capacity then
      max_wait = struct.unpack(kInstant, arg, 2 + kBucketArgumentSize)
      local excess, whole, part = units + cost - capacity, wide(l, max_wait, 0, p)
      is_late = excess > whole or excess == whole and aux > part
    end
    include 'debt'
  elseif capacity == 0 or units + aux == 0 then
    return state, true
  elseif verb == kGiveBack then
    -- What has not drained since the take.
    local taken_at = struct.unpack(kInstant, arg, 2 + kBucketArgumentSize)
    if taken_at > at then return state, true end -- the counter is newer than the take
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
  if level < kExact then
    part = level % l
    full = (level - part) / l
  else
    full, part = wide(units, p, aux, l)
  end
  full = at + (part > 0 and full + 1 or full)
  include 'fixed_state_write'
end
