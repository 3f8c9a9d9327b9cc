-- A charge or a reservation of units that the counter may not have yet. In: the state, as of `at`;
-- spent, its units rounded up; full_aux, its aux if it has the most units; is_late, whether a
-- reservation has to wait for more than max_wait; and most, the most units that a state can have if
-- kMaxUnits are not fewer. Out: units and aux.
if most > kMaxUnits then most = kMaxUnits end
if verb == kReserve then
  if cost > capacity then return state, false end
  if spent + cost > capacity then
    if is_late and old_checksum ~= checksum then
      -- Under changed numbers the state may be forgotten before that.
      local _, _, _, _, _, forgotten = struct.unpack(kFixedState, state)
      is_late = forgotten >= kNeverForgotten or forgotten * kForgottenUnit > at + max_wait
    end
    if is_late or spent + cost > most then return state, false end
  end
  units = units + cost
elseif capacity > 0 and spent + cost <= most then
  units = units + cost
elseif capacity == 0 or units == most then
  return state, true
else
  units, aux = most, full_aux
end
