-- Reads the state of a bucket or a fixed window. In: key, state, now, own_kind and checksum. Out:
-- at, the instant decided at, and the state's last, aux, units and old_checksum. A counter that is
-- absent or forgotten has spent nothing.
if not state then state = redis.pcall('GET', key) end
local at, last, aux, units, old_checksum = now, now, 0, 0, checksum
if state then
  if #state ~= kFixedStateSize then return nil, state end
  local kind, changed, held_aux, held, held_by, forgotten = struct.unpack(kFixedState, state)
  include 'check_header'
  if held_aux >= kEndOfSpans then return nil, state end
  if known_until > now then
    last, aux, units, old_checksum = changed, held_aux, held, held_by
    if last > now then at = last end
  end
end
