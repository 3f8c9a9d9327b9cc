part 'check_header'
-- The header check of all states. In: state, its numbers kind, changed and forgotten, and own_kind.
-- Out: known_until; from that instant on the state is forgotten. Ends the function if the value is
-- no such state.
local known_until = forgotten * kForgottenUnit
if forgotten >= kNeverForgotten then known_until = kEndOfInstants end
if kind ~= own_kind or changed >= kEndOfInstants or changed > known_until then return nil, state end

part 'seal'
-- Seals the state that is to be written. In: full, the instant from which the counter is untouched.
-- Out: ends, the instant from which it is forgotten, and the number `forgotten` that says so.
full = full + (kForgottenUnit - 1)
local forgotten = (full - full % kForgottenUnit) / kForgottenUnit
if forgotten > kNeverForgotten then forgotten = kNeverForgotten end
local ends = forgotten * kForgottenUnit

part 'at_most'
-- Ends the function of a counter for kTakeAtMostOfAll, and changes the cost of kTakeAtMost. In:
-- left, the units that would pass. Out: cost, 1 if there are none, which is denied then.
if verb == kTakeAtMostOfAll then return state, left end
if verb == kTakeAtMost and left < cost then cost = left < 1 and 1 or left end

part 'fixed_state_read'
-- Reads the state of a bucket or a fixed window. In: key, state, now, own_kind and checksum. Out:
-- at, the instant decided at, and the state's last, aux, units, old_checksum and old_forgotten. A
-- counter that is absent or forgotten has spent nothing.
if not state then state = redis.pcall('GET', key) end
local at, last, aux, units, old_checksum, old_forgotten = now, now, 0, 0, checksum, nil
if state then
  if #state ~= kFixedStateSize then return nil, state end
  local kind, changed, held_aux, held, held_by, forgotten = struct.unpack(kFixedState, state)
  include 'check_header'
  if held_aux >= kEndOfSpans then return nil, state end
  if known_until > now then
    last, aux, units, old_checksum, old_forgotten = changed, held_aux, held, held_by, forgotten
    if last > now then at = last end
  end
end

part 'fixed_state_write'
-- Returns the new state of a bucket or a fixed window. In: state, at, aux, units, checksum,
-- old_forgotten and own_kind, and full for sealing. The key of a bucket in use mostly expires when it
-- is to expire already, and the server takes 2.5 times as long to write it with its expiry. That of a
-- bucket which is full within an hour may be later: a request with an explicit timestamp keeps it for
-- a day. A window, or another bucket, may be longer than that.
include 'seal'
local is_kept = forgotten == old_forgotten and own_kind == kBucketKind and ends - now <= 3600000000
return state, true, struct.pack(kFixedState, own_kind, at, aux, units, checksum, forgotten),
       ends - now, is_kept and 'kept' or nil

part 'write'
-- Writes a counter. In: key, and value, keep_for and others as its function has returned them;
-- explicit_ms, how long keys are kept if the request has an explicit timestamp; call, redis.call;
-- keys; and values, of which each is to be written, nil for all.
local ms = keep_for
if others == 'kept' then
  if explicit_ms then others = nil else others, ms = true, nil end
end
if ms then
  -- Rounded up, and 1 more: Redis counts from the last whole millisecond of its clock.
  ms = explicit_ms or (ms < 0 and 1 or (ms + -ms % 1000) / 1000 + 1)
end
local put = redis.pcall
repeat
  local said
  if others == 'hash' then
    if value.is_old then call('DEL', key) end
    -- In pieces: a call takes some thousand arguments.
    for i = 1, #value, kMostArguments do
      local last = i + kMostArguments - 1
      said = put('HSET', key, unpack(value, i, last < #value and last or #value))
      if type(said) == 'table' and said.err then break end
    end
  elseif others then
    said = put('SETRANGE', key, '0', value)
  elseif value then
    said = put('SET', key, value, 'PX', ms)
  end
  local refused = type(said) == 'table' and said.err
  if refused then
    -- The server has refused a call's first write, with the error `refused`. If its memory is full, it
    -- executes all writes of a call whose first one needs no memory. So this call writes counters that
    -- exist, and creates none.
    if string.find(refused, 'OOM ', 1, true) then
      local new = ''
      for j, one in ipairs(keys) do
        if (not values or values[j]) and call('EXISTS', one) == 0 then new = new .. ' ' .. j end
      end
      if new ~= '' then return {err = 'STOREFULL' .. new .. ': no memory for a new counter'} end
      local left = call('PTTL', key)
      if left > 0 then call('PEXPIRE', key, left) end
    end
    put = call -- which ends the script if the server refuses it again
  end
until not refused
if others then
  if others ~= true and others ~= 'hash' then
    for _, command in ipairs(others) do call(unpack(command)) end
  end
  if ms then call('PEXPIRE', key, ms) end
  with_ledger 'ledger_write'
end

part 'foreign'
-- Returns the reply if a function cannot decide. `found`: the reply; or the value if the key holds
-- something else, or the error of reading it, which is returned if it says anything but WRONGTYPE.
-- `what`: what is wrong, if known.
local function foreign(key, found, what)
  if type(found) == 'table' then
    if found.ok or not string.find(found.err, '^%-?WRONGTYPE') then return found end
    what = 'another type'
  end
  if #key > 64 then key = string.sub(key, 1, 64) .. '...' end
  key = string.gsub(key, '%c', '?')
  what = what or 'a value of another kind or version'
  return {err = 'FOREIGNVALUE ' .. key .. ' holds ' .. what}
end

part 'wide'
-- Returns floor((a * m + add) / d) and the remainder. Doubles hold whole numbers only up to 2^53;
-- this is exact because it goes digit by digit of 7 bits. For a < 2^35, m < 2^53, add and d < 2^45.
-- A quotient beyond 2^53 is not exact, but is beyond 2^53.
local function wide(a, m, add, d)
  local small = a * m + add
  if small < kExact then
    local part = small % d
    return (small - part) / d, part
  end
  local rest = m % d
  local far = (m - rest) / d * a
  local quotient, remainder, weight = 0, 0, 268435456
  for _ = 1, 5 do
    local low = a % weight
    local sum = remainder * 128 + rest * ((a - low) / weight)
    if weight == 1 then sum = sum + add end
    remainder = sum % d
    quotient = quotient * 128 + (sum - remainder) / d
    a = low
    weight = weight / 128
  end
  return far + quotient, remainder
end
