part 'single'
-- One charge at the server's time, the most common request: ARGV[1] is the counter's argument. The
-- verb is kTake if there is no other, ARGV[2]. As any request a bucket takes 13 % longer.
local verb = ARGV[2] and string.byte(ARGV[2]) or kTake
local call, explicit_ms = redis.call, nil
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local keys, values, key = KEYS, nil, KEYS[1]
local state, admits, value, keep_for, others = decide[1](key, ARGV[1], now, verb)
if state == nil then return foreign(key, admits) end
if value then
  include 'write'
end
return struct.pack(kSingleReply, admits and now + kAdmits or now, state or '')

part 'request'
-- Any request. KEYS, ARGV and the reply: see the contract in format.h.
--
-- decide[f](key, arg, now, verb, state) decides for one counter of family f. `state` is the
-- counter's value if it is known already. The function writes nothing and returns
--   state     what the reply says of the counter; false if nothing is known of it. Or nil if the
--             key holds something else, which is then the second result
--   admits    whether the counter admits the charge; nil if a denial does not count for a block,
--             because its reason is not `limited`. Of kTakeAtMostOfAll, how many units it has left
--             (then `value` is the format of its cost, if it is not kCost)
--   value     what is to be written; nil for nothing
--   keep_for  for how many µs from now the key is to be kept; nil if it is kept long enough
--   others    nil if `value` is all of the new value; 'kept' if also the key expires then already;
--             'hash' if it is fields and values of a hash, which are of a new one if it says is_old.
--             If `value` is only its beginning: true, or the other commands that write
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
  -- The value of each block, '' if it has none. Their keys follow those of the counters.
  blocks = {}
  for j = 1, #keys - count do
    local key, value = keys[count + j], states[count + j]
    -- A reset would delete a value of another type.
    if not reads_whole or #keys == 1 or verb % kWithRows == kReset then
      value = redis.pcall('GET', key)
    end
    if value then
      local size = type(value) == 'string' and #value - kKeyBlockHeadSize or -1
      if size < 0 or size % kInstantSize ~= 0 then return foreign(key, value) end
      local kind, changed, ends, grown, forgotten = struct.unpack(kKeyBlockHead, value)
      if kind ~= kKeyBlockKind or changed >= kEndOfInstants or grown >= kEndOfSpans then
        return foreign(key, value)
      end
      local _, flags = struct.unpack('<I1I1', ARGV[count + 2], (j - 1) * kKeyBlockArgumentSize + 1)
      local at = changed > now and changed or now
      if forgotten > now and ends > at and flags % 2 == kDeniesIfBlocked then is_blocked = true end
    end
    blocks[j] = value or ''
  end
end
-- Of budgets in a row: of each counter the number of the first of its row, and whether it admits.
local rows, admitted
if verb >= kWithRows then verb, rows, admitted = verb - kWithRows, {}, {} end
-- With room for three counters, so that these tables seldom grow. A false value is not written.
local reply, values, times = {0, 0, 0, 0, 0, 0, 0}, {false, false, false}, {0, 0, 0}
local more, must_exist, all_admit = nil, nil, true
local args = ARGV
if verb == kTakeAtMostOfAll then
  -- A take of as many units with every charge as each can have, up to the least cost; one if there
  -- are none, which is denied then.
  local units, formats = nil, {}
  for i = 1, count do
    local arg = ARGV[i + 1]
    local state, left, format =
      decide[string.byte(arg) % kMustExist](keys[i], arg, now, verb, states[i])
    if state == nil then return foreign(keys[i], left) end
    states[i], formats[i] = state or nil, format or kCost
    local cost = struct.unpack(formats[i], arg, 2)
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
    args[i + 1] = string.sub(arg, 1, 1) .. struct.pack(formats[i], units * charges) ..
      string.sub(arg, 2 + struct.size(formats[i]))
  end
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
  if rows then
    rows[i] = family >= kAlternative and rows[i - 1] or i
    family = family % kAlternative
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
  if rows then admitted[i] = admits else all_admit = all_admit and admits end
  if denied then denied[i] = admits == false end
end
if rows then
  -- Of a row the budget answers that knows the id, else the first that admits, else the first.
  local asks, i = verb == kTake or verb == kPeek or verb == kReserve, 1
  while i <= count do
    local last, chosen, is_known = i, i, false
    while rows[last + 1] == i do last = last + 1 end
    if last > i then
      for j = last, i, -1 do
        local kind = reply[j * 2] > 0 and select(7, struct.unpack(kBudgetReply, reply[j * 2 + 1])) or 0
        if kind ~= 0 then chosen, is_known = j, true end
        if not is_known and asks and admitted[j] then chosen = j end
      end
      for j = i, last do
        if j ~= chosen then
          values[j], times[j], admitted[j] = false, false, true
          if more then more[j] = nil end
        end
      end
    end
    for j = i, last do all_admit = all_admit and admitted[j] end
    i = last + 1
  end
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
  with_ledger 'ledger_forget'
elseif verb ~= kPeek and (all_admit or verb == kRelease) then
  for i = 1, count do
    local key, value, keep_for, others = keys[i], values[i], times[i], more and more[i]
    include 'write'
  end
end
if blocks then
  -- Counts the denials of a request, or blocks and unblocks by hand: see core/block.h. Changes
  -- blocks[j] into its part of the reply.
  local refused -- what the server has said, if its memory is full
  for j = 1, #blocks do
    local counter, flags, after, within, length, growth, at_most =
      struct.unpack(kKeyBlockArgument, ARGV[count + 2], (j - 1) * kKeyBlockArgumentSize + 1)
    local key, value, is_written = keys[count + j], blocks[j], '\1'
    if flags == kUnblocksByHand then
      call('DEL', key)
    elseif flags == kBlocksByHand or
        denied[counter] and not is_blocked and flags >= kCountsDenials then
      local at, ends, grown, denials, forgotten = now, 0, 0, '', nil
      if value ~= '' then
        local _, changed, held_end, held_grown, known_until = struct.unpack(kKeyBlockHead, value)
        if known_until > now then
          if changed > now then at = changed end
          ends, denials = held_end, string.sub(value, kKeyBlockHeadSize + 1)
          if at - ends < at_most then grown = held_grown end
        end
      end
      local first = 1
      while first <= #denials and at - struct.unpack(kInstant, denials, first) >= within do
        first = first + kInstantSize
      end
      denials = string.sub(denials, first)
      if flags == kBlocksByHand then
        ends, denials = at + length, ''
      elseif #denials / kInstantSize + 1 < after then
        denials = denials .. struct.pack(kInstant, at)
        forgotten = at + within
      else
        if grown == 0 then
          grown = length
        else
          local part = grown % 100
          local longer = part * growth
          grown = (grown - part) / 100 * growth + (longer + -longer % 100) / 100
          if grown < length then grown = length end
          if grown > at_most then grown = at_most end
        end
        ends, denials = at + grown, ''
      end
      local quiet = grown > 0 and ends + at_most or ends
      if not forgotten or quiet > forgotten then forgotten = quiet end
      local left = forgotten - now
      local ms = explicit_ms or (left + -left % 1000) / 1000 + 1
      local text =
        struct.pack(kKeyBlockHead, kKeyBlockKind, at, ends, grown, forgotten) .. denials
      -- A value of another type is not overwritten: MGET returns nothing for it.
      local said = value == '' and refused or
        redis.pcall('SET', key, text, 'PX', ms, value == '' and 'NX' or 'XX')
      if said and said.err and value ~= '' and string.find(said.err, 'OOM ', 1, true) then
        -- As in 'write': a full server writes blocks that exist, and creates none.
        refused = said
        local left = call('PTTL', key)
        if left > 0 then call('PEXPIRE', key, left) end
        said = redis.pcall('SET', key, text, 'PX', ms, 'XX')
      end
      if not said then return foreign(key, redis.pcall('GET', key)) end
      if said.err then
        if flags == kBlocksByHand then return said end
        is_written = '\0' -- the server has no memory for it
      end
    end
    blocks[j] = is_written .. value
  end
  for j = 1, #blocks do
    count = count + 1
    reply[count * 2], reply[count * 2 + 1] = #blocks[j], blocks[j]
  end
end
reply[1] = all_admit and now + kAdmits or now
return struct.pack(kInstant .. string.rep(kCounterReply, count), unpack(reply, 1, count * 2 + 1))
