-- The header check of all states. In: state, its numbers kind, changed and forgotten, and own_kind.
-- Out: known_until; from that instant on the state is forgotten. Ends the function if the value is
-- no such state.
local known_until = forgotten * kForgottenUnit
if forgotten >= kNeverForgotten then known_until = kEndOfInstants end
if kind ~= own_kind or changed >= kEndOfInstants or changed > known_until then return nil, state end
