-- Decides for a window. In: what fixed_state_read has read, units and aux as of `at`; fresh, the aux
-- of a window without units; close, the window's end; cost and capacity.
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
    local taken_at = struct.unpack(kInstant, arg, #arg - (kInstantSize - 1))
    if taken_at < at - aux or taken_at > at then return state, true end
  end
  if capacity == 0 or units == 0 then return state, true end
  if cost < units then
    units = units - cost
  else
    units, aux = 0, fresh
  end
end
local full = units > 0 and close or at
include 'fixed_state_write'
