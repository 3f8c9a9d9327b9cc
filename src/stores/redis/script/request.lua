-- Any request. KEYS, ARGV and the reply: see the contract in format.h.
--
-- decide[f](key, arg, now, verb, state) decides for one counter of family f. `state` is the
-- counter's value if it is known already. The function writes nothing and returns
--   state     what the reply says of the counter; false if nothing is known of it. Or nil if the
--             key holds something else, which is then the second result
--   admits    whether the counter admits the charge; of kTakeAtMostOfAll, how many units it has left
--   value     what is to be written; nil for nothing
--   keep_for  for how many µs from now the key is to be kept; nil if it is kept long enough
--   others    nil if `value` is all of the new value. If `value` is only its beginning: true, or
--             the other commands that write
local verb, now, explicit_ms = struct.unpack(kRequest, ARGV[1])
if now == kServerTime then
  local time = redis.call('TIME')
  now, explicit_ms = time[1] * 1000000 + time[2], nil
end
local count, keys, call = #KEYS, KEYS, redis.call
-- MGET returns nothing for a key of another type too, so a function reads an absent key again.
local states = reads_whole and count > 1 and call('MGET', unpack(keys)) or {}
local blocks, is_blocked, denied
if verb >= kWithBlocks then
  verb, count, denied = verb - kWithBlocks, #ARGV - 2, {}
  include 'key_blocks_read'
end
-- With room for three counters, so that these tables seldom grow.
local reply, values, times = {0, 0, 0, 0, 0, 0, 0}, {0, 0, 0}, {0, 0, 0}
local more, must_exist, all_admit = nil, nil, true
local args = ARGV
if verb == kTakeAtMostOfAll then
  include 'at_most_of_all'
end
for i = 1, count do
  local arg = args[i + 1]
  local family, its_verb = string.byte(arg), verb
  if family >= kMustExist then
    family = family - kMustExist
    must_exist = must_exist or {}
    must_exist[i] = true
  end
  if family >= kGivesBack then
    -- What was given back is charged again to undo it.
    family, its_verb = family - kGivesBack, verb == kGiveBack and kCharge or kRefund
  end
  local state, admits, value, keep_for, others =
    decide[family](keys[i], arg, now, its_verb, states[i])
  if state == nil then return foreign(keys[i], admits) end
  reply[i * 2] = state and #state or 0
  reply[i * 2 + 1] = state or ''
  values[i], times[i] = value or false, keep_for or false
  if others then
    more = more or {}
    more[i] = others
  end
  all_admit = all_admit and admits
  if denied then denied[i] = not admits end
end
if is_blocked then all_admit = false end
if must_exist and all_admit then
  local new = ''
  for i = 1, count do
    if must_exist[i] and values[i] and call('EXISTS', keys[i]) == 0 then new = new .. ' ' .. i end
  end
  if new ~= '' then return {ok = 'STOREFULL' .. new} end
end
if verb == kReset then
  call('DEL', unpack(keys))
elseif verb ~= kPeek and (all_admit or verb == kRelease) then
  for i = 1, count do
    local key, value, keep_for, others = keys[i], values[i], times[i], more and more[i]
    include 'write'
  end
end
if blocks then
  include 'key_blocks_write'
  for j = 1, #blocks do
    count = count + 1
    reply[count * 2], reply[count * 2 + 1] = #blocks[j], blocks[j]
  end
end
reply[1] = all_admit and now + kAdmits or now
return struct.pack(kInstant .. string.rep(kCounterReply, count), unpack(reply, 1, count * 2 + 1))
