-- A charge that a bucket has room for, or a take that it denies, in the numbers of the last write.
-- In: state, now, verb, the numbers of the argument, unpack and pack, and explicit_ms as for
-- write.lua. Out: admits, unchanged or 0; and, if the counter admits the charge, value and ms, for
-- how long the key is to be kept. Breaks the loop around it in any other case.
local value, ms
local level = 0
if state then
  if #state ~= kFixedStateSize then break end
  local kind, changed, aux, units, held_by, forgotten = unpack(kFixedState, state)
  level = units * p + aux
  if kind ~= kBucketKind or held_by ~= checksum or changed > now or
      forgotten * kForgottenUnit <= now or aux >= kEndOfSpans or level >= kExact then
    break
  end
  level = level - (now - changed) * l
  if level < 0 then level = 0 end
end
level = level + cost * p
if cost == 0 or level >= kExact then break end
if level > capacity * p then
  if verb ~= kTake then break end
  admits = 0
else
  -- A charge of units that can hardly ever drain may be limited by that.
  if verb ~= kTake and level + p > l * (kMaxWait / 2) then break end
  local aux, full = level % p, level % l
  full = now + (full > 0 and (level - full) / l + 1 or level / l)
  include 'seal'
  value = pack(kFixedState, kBucketKind, now, aux, (level - aux) / p, checksum, forgotten)
  ms = ends - now
  ms = explicit_ms or (ms + -ms % 1000) / 1000 + 1
end
