-- Seals the state that is to be written. In: full, the instant from which the counter is untouched.
-- Out: ends, the instant from which it is forgotten, and the number `forgotten` that says so.
full = full + (kForgottenUnit - 1)
local forgotten = (full - full % kForgottenUnit) / kForgottenUnit
if forgotten > kNeverForgotten then forgotten = kNeverForgotten end
local ends = forgotten * kForgottenUnit
