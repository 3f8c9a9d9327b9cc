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
