-- Changes the request into a take of as many units with every charge as each can have, up to the
-- least cost; one if there are none, which is denied then. In: keys, states, count and now. Out:
-- verb and args.
local units
for i = 1, count do
  local arg = ARGV[i + 1]
  local state, left = decide[string.byte(arg) % kMustExist](keys[i], arg, now, verb, states[i])
  if state == nil then return foreign(keys[i], left) end
  states[i] = state or nil
  local cost = struct.unpack(kCost, arg, 2)
  local charges = struct.unpack(kInstant, arg, #arg - (kInstantSize - 1))
  left = (left - left % charges) / charges
  if left < cost then cost = left end
  if not units or cost < units then units = cost end
end
if units < 1 then units = 1 end
verb, args = kTake, {}
for i = 1, count do
  local arg = ARGV[i + 1]
  local charges = struct.unpack(kInstant, arg, #arg - (kInstantSize - 1))
  args[i + 1] = string.sub(arg, 1, 1) .. struct.pack(kCost, units * charges) ..
    string.sub(arg, 2 + kCostSize)
end
