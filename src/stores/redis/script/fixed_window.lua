-- fixed_window: see core/fixed_window.h. aux: ticks since the window opened.
local function fixed_window(key, arg, now, verb, state)
  local own_kind = kFixedWindowKind
  local cost, capacity, period, checksum, by_clock = struct.unpack(kFixedWindowArgument, arg, 2)
  include 'fixed_state_read'
  if by_clock == 1 then
    aux = last % period
  elseif aux >= period then
    aux = 0
  end
  aux = aux + at - last
  if aux >= period then units = 0 end
  if units == 0 then aux = by_clock == 1 and at % period or 0 end
  if cost == 0 or verb == kReset then return state, true end
  if verb == kTakeAtMostOfAll then return state, capacity - units end
  if verb == kTakeAtMost then
    local left = capacity - units
    include 'at_most'
  end
  if verb == kTake or verb == kPeek or verb == kTakeAtMost or verb == kReserve then
    units = units + cost
    if units > capacity then return state, false end
  elseif verb == kCharge then
    if capacity == 0 or units == kMaxUnits then return state, true end
    units = units + cost < kMaxUnits and units + cost or kMaxUnits
  else
    if verb == kGiveBack then
      local taken_at = struct.unpack(kInstant, arg, 2 + kFixedWindowArgumentSize)
      if taken_at < at - aux or taken_at > at then return state, true end
    end
    if capacity == 0 or units == 0 then return state, true end
    if cost < units then
      units = units - cost
    else
      units, aux = 0, by_clock == 1 and at % period or 0
    end
  end
  local full = units > 0 and at + period - aux or at
  include 'fixed_state_write'
end
