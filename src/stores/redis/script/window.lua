part 'window_verbs'
-- Decides for a window. In: what fixed_state_read has read, units and aux as of `at`; fresh, the aux
-- of a window without units; close, the window's end; cost and capacity.
if cost == 0 or verb == kReset then return state, true end
local left = capacity - units
include 'at_most'
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

part 'fixed_window'
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
  local fresh = by_clock == 1 and at % period or 0
  if units == 0 then aux = fresh end
  local close = at + period - aux
  include 'window_verbs'
end

part 'calendar_window'
-- A fixed window of the calendar: see core/fixed_window.h. The request brings two windows, one after
-- the other. If the counter is in neither, the client has to send those of its instant. aux: ticks
-- since the window opened.
local function calendar_window(key, arg, now, verb, state)
  local own_kind = kFixedWindowKind
  local cost, capacity, checksum = struct.unpack(kCalendarArgument, arg, 2)
  local number, open, close, next_close =
    struct.unpack(kWindows, arg, 2 + kCalendarArgumentSize)
  include 'fixed_state_read'
  if at >= close then open, close = close, next_close end
  if at < open or at >= close then
    return nil, {ok = string.format('WINDOW %d %.0f %.0f', number, at, now)}
  end
  if last < open then units = 0 end
  local fresh = at - open
  aux = fresh
  include 'window_verbs'
end
