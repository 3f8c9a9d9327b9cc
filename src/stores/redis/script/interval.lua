-- token_bucket with refill: interval: see core/token_bucket.h. aux: ticks since the last refill.
local function interval(key, arg, now, verb, state)
  local own_kind = kBucketKind
  local cost, capacity, refill, period, checksum = struct.unpack(kIntervalArgument, arg, 2)
  include 'fixed_state_read'
  if old_checksum ~= checksum then
    -- Counted under another limit: whole units, no more than can ever be refilled.
    if old_checksum % 2 == 0 then
      if aux > 0 and units < kMaxUnits then units = units + 1 end
      aux = 0
    elseif aux >= period then
      aux = 0
    end
    if refill > 0 then
      local most = (kMaxWait - kMaxWait % period) / period * refill
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
  if cost == 0 or verb == kReset then return state, true end
  if verb == kTakeAtMostOfAll then return state, capacity - units end
  if verb == kTakeAtMost then
    local left = capacity - units
    include 'at_most'
  end
  if verb == kTake or verb == kPeek or verb == kTakeAtMost then
    units = units + cost
    if units > capacity then return state, false end
  elseif verb >= kCharge then
    local most = (kMaxWait - kMaxWait % period) / period * refill
    local spent, excess, full_aux, max_wait, is_late = units, units + cost - capacity, aux, 0, false
    if verb == kReserve and excess > 0 then
      max_wait = struct.unpack(kInstant, arg, 2 + kIntervalArgumentSize)
      is_late = (excess + -excess % refill) / refill * period - aux > max_wait
    end
    include 'debt'
  else
    if verb == kGiveBack then
      local taken_at = struct.unpack(kInstant, arg, 2 + kIntervalArgumentSize)
      if taken_at > at then return state, true end -- the counter is newer than the take
      -- What was refilled between the take and the last refill.
      local ticks = at - aux - taken_at
      if ticks > 0 then cost = cost - (ticks + -ticks % period) / period * refill end
    end
    if cost <= 0 or capacity == 0 or units == 0 then return state, true end
    if cost >= units then units, aux = 0, 0 else units = units - cost end
  end
  local full = at + (units + -units % refill) / refill * period - aux
  include 'fixed_state_write'
end
