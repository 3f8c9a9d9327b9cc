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
