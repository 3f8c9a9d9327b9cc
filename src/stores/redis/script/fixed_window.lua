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
