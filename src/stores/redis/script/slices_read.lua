-- Reads the state of a sliding_window_counter. In: key, now, verb and state, and the limit's n,
-- period and whole. Out: at, the instant decided at; its slice and phase; and counts, the units by
-- slice as of then, the newest slice first.
if not state then state = redis.pcall('GET', key) end
local at, slice, phase, counts = now, nil, nil, {}
if state then
  local size = #state - kSlicesHeadSize
  if size < 0 or size % kSliceCountSize ~= 0 then return nil, state end
  local kind, changed, old_period, old_n, forgotten = struct.unpack(kSlicesHead, state)
  include 'check_header'
  if old_n < 1 or old_n > kMaxSlices or size > kSliceCountSize * (old_n + 1) or
      old_period < kMinPeriod or old_period >= kEndOfSpans then
    return nil, state
  end
  if known_until > now then
    local held = {struct.unpack('<' .. string.rep(kSliceCount, size / kSliceCountSize), state,
                                kSlicesHeadSize + 1)}
    held[#held] = nil -- where struct.unpack ended
    if old_n ~= n or old_period ~= period then
      -- Counted by another grid: all that counted then is of the slice of the last change.
      if verb == kGiveBack then return state, true end
      local _, old_phase = slice_of(changed, old_n, old_period)
      local units = units_in(held, old_n, old_period, old_phase, whole)
      held = {units < kMaxUnits and units or kMaxUnits}
    end
    if changed > now then at = changed end
    slice, phase = slice_of(at, n, period)
    local shift = slice - slice_of(changed, n, period)
    for age = 0, shift < n and shift or n do counts[age + 1] = 0 end
    for i = 1, #held do
      if shift + i > n + 1 then break end
      counts[shift + i] = held[i]
    end
  end
end
if not slice then slice, phase = slice_of(at, n, period) end
