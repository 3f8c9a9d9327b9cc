part 'debt'
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

part 'bucket'
-- token_bucket, leaky_bucket and gcra: see core/bucket.h. A bucket loses l/p units each tick; aux
-- is a fraction of a unit, in 1/p.
local function bucket(key, arg, now, verb, state)
  local own_kind = kBucketKind
  local cost, capacity, l, p, checksum = struct.unpack(kBucketArgument, arg, 2)
  include 'fixed_state_read'
  if units + aux > 0 then
    if old_checksum ~= checksum then
      -- Counted under another limit: whole units, no more than can ever drain.
      if aux > 0 and old_checksum % 2 == 0 and units < kMaxUnits then units = units + 1 end
      aux = 0
      if l > 0 then
        local most = wide(l, kMaxWait, 0, p)
        if units > most then units = most end
      end
    end
    local level = units * p + aux
    if level < kExact then
      level = level - (at - last) * l
      if level < 0 then level = 0 end
      aux = level % p
      units = (level - aux) / p
    else
      local whole, part = wide(l, at - last, 0, p)
      units, aux = units - whole, aux - part
      if aux < 0 then units, aux = units - 1, aux + p end
      if units < 0 then
        units, aux = 0, 0
      elseif aux >= p then
        local rest = aux % p
        units, aux = units + (aux - rest) / p, rest
      end
    end
  end
  if cost == 0 or verb == kReset then return state, true end
  local spent = aux > 0 and units + 1 or units
  local left = capacity - spent
  include 'at_most'
  if verb == kTake or verb == kPeek or verb == kTakeAtMost then
    if spent + cost > capacity then return state, false end
    units = units + cost
  elseif verb >= kCharge then
    local most, full_aux, max_wait, is_late = kMaxUnits, 0, 0, false
    if (spent + cost) * p > l * (kMaxWait / 2) then most = wide(l, kMaxWait, 0, p) end
    if verb == kReserve and spent + cost > capacity then
      max_wait = struct.unpack(kInstant, arg, 2 + kBucketArgumentSize)
      local excess, whole, part = units + cost - capacity, wide(l, max_wait, 0, p)
      is_late = excess > whole or excess == whole and aux > part
    end
    include 'debt'
  elseif capacity == 0 or units + aux == 0 then
    return state, true
  elseif verb == kGiveBack then
    -- What has not drained since the take.
    local taken_at = struct.unpack(kInstant, arg, 2 + kBucketArgumentSize)
    if taken_at > at then return state, true end -- the counter is newer than the take
    local whole, part = wide(l, at - taken_at, 0, p)
    if cost <= whole then return state, true end
    units, aux = units - (cost - whole), aux + part
    if aux >= p then units, aux = units + 1, aux - p end
    if units < 0 then units, aux = 0, 0 end
  elseif cost > units then
    units, aux = 0, 0
  else
    units = units - cost
  end
  local level = units * p + aux
  local full, part
  if level < kExact then
    part = level % l
    full = (level - part) / l
  else
    full, part = wide(units, p, aux, l)
  end
  full = at + (part > 0 and full + 1 or full)
  include 'fixed_state_write'
end

part 'interval'
-- token_bucket with refill: interval: see core/token_bucket.h. aux: ticks since the last refill.
local function interval(key, arg, now, verb, state)
  local own_kind = kBucketKind
  local cost, capacity, refill, period, checksum = struct.unpack(kIntervalArgument, arg, 2)
  include 'fixed_state_read'
  if old_checksum ~= checksum then
    -- Counted under another limit: whole units, no more than can ever be refilled.
    if old_checksum % 2 == 0 then
      if aux > 0 and units < kMaxUnits then units = units + 1 end
      aux = 0
    elseif aux >= period then
      aux = 0
    end
    if refill > 0 then
      local most = (kMaxWait - kMaxWait % period) / period * refill
      if units > most then units = most end
    end
  end
  if units == 0 then
    aux = 0
  elseif refill > 0 then
    local ticks = aux + at - last
    aux = ticks % period
    local back = (ticks - aux) / period * refill
    if back < units then units = units - back else units, aux = 0, 0 end
  end
  if cost == 0 or verb == kReset then return state, true end
  local left = capacity - units
  include 'at_most'
  if verb == kTake or verb == kPeek or verb == kTakeAtMost then
    units = units + cost
    if units > capacity then return state, false end
  elseif verb >= kCharge then
    local most = (kMaxWait - kMaxWait % period) / period * refill
    local spent, excess, full_aux, max_wait, is_late = units, units + cost - capacity, aux, 0, false
    if verb == kReserve and excess > 0 then
      max_wait = struct.unpack(kInstant, arg, 2 + kIntervalArgumentSize)
      is_late = (excess + -excess % refill) / refill * period - aux > max_wait
    end
    include 'debt'
  else
    if verb == kGiveBack then
      local taken_at = struct.unpack(kInstant, arg, 2 + kIntervalArgumentSize)
      if taken_at > at then return state, true end -- the counter is newer than the take
      -- What was refilled between the take and the last refill.
      local ticks = at - aux - taken_at
      if ticks > 0 then cost = cost - (ticks + -ticks % period) / period * refill end
    end
    if cost <= 0 or capacity == 0 or units == 0 then return state, true end
    if cost >= units then units, aux = 0, 0 else units = units - cost end
  end
  local full = at + (units + -units % refill) / refill * period - aux
  include 'fixed_state_write'
end

part 'bucket_take'
-- A charge that a bucket has room for, or a take that it denies, in the numbers of the last write.
-- In: state, now, verb, the numbers of the argument, unpack and pack, and explicit_ms as for
-- 'write'. Out: admits, unchanged or 0; and, if the counter admits the charge, value, and ms, for
-- how long the key is to be kept: false if it expires then already. Breaks the loop around it in any
-- other case.
local value, ms, held
local level = 0
if state then
  if #state ~= kFixedStateSize then break end
  local kind, changed, aux, units, held_by, known_until = unpack(kFixedState, state)
  level, held = units * p + aux, known_until
  if kind ~= kBucketKind or held_by ~= checksum or changed > now or
      held * kForgottenUnit <= now or aux >= kEndOfSpans or level >= kExact then
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
  -- As in 'fixed_state_write'.
  ms = (forgotten ~= held or ends - now > 3600000000) and ends - now
  ms = explicit_ms or ms and (ms + -ms % 1000) / 1000 + 1
end

part 'bucket_single'
-- The short way of 'single' for a bucket: the most common charges, without a function. It writes
-- nothing if it cannot decide, and the long way follows, which takes 9 to 12 % longer.
repeat
  local unpack, pack = struct.unpack, struct.pack
  local arg, verb = ARGV[1], ARGV[2]
  verb = verb and string.byte(verb) or kTake
  if verb ~= kTake and (verb < kCharge or verb > kTakeAtMost) then break end
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local key, admits, try, explicit_ms = KEYS[1], kAdmits, redis.pcall, nil
  local state = try('GET', key)
  local cost, capacity, l, p, checksum = unpack(kBucketArgument, arg, 2)
  include 'bucket_take'
  if value then
    local said = ms and try('SET', key, value, 'PX', ms) or try('SETRANGE', key, '0', value)
    if type(said) == 'table' and said.err then break end
  end
  return pack(kSingleReply, now + admits, state or '')
until true

part 'bucket_request'
-- The short way of 'request' for buckets: the most common charges, without a function. It writes
-- nothing if it cannot decide, and the long way follows, which takes 16 % longer for three buckets.
repeat
  local unpack, pack, call, try = struct.unpack, struct.pack, redis.call, redis.pcall
  local keys, args = KEYS, ARGV
  local verb, now, explicit_ms = unpack(kRequest, args[1])
  if verb ~= kTake and (verb < kCharge or verb > kTakeAtMost) then break end
  if now == kServerTime then
    local time = call('TIME')
    now, explicit_ms = time[1] * 1000000 + time[2], nil
  end
  local count, decided, admits = #keys, 0, kAdmits
  local states, writes = {false, false, false}, {0, 0, 0, 0, 0, 0}
  for i = 1, count do
    local state = try('GET', keys[i])
    local family, cost, capacity, l, p, checksum = unpack(kBucketOfRequest, args[i + 1])
    if family ~= 1 then break end
    include 'bucket_take'
    states[i], writes[i], writes[i + count], decided = state, value, ms, i
  end
  if decided < count then break end
  if admits > 0 then
    local refused
    for i = 1, count do
      local ms, put = writes[i + count], i == 1 and try or call
      local said = ms and put('SET', keys[i], writes[i], 'PX', ms) or
        put('SETRANGE', keys[i], '0', writes[i])
      refused = type(said) == 'table' and said.err
      if refused then break end
    end
    if refused then break end
  end
  local a, b, c = states[1], states[2], states[3]
  local reply = pack(kInstant, now + admits) ..
    (a and kFoundState or kNoState) .. (a or '') ..
    (count > 1 and (b and kFoundState or kNoState) or '') .. (b or '') ..
    (count > 2 and (c and kFoundState or kNoState) or '') .. (c or '')
  for i = 4, count do
    local state = states[i]
    reply = reply .. (state and kFoundState or kNoState) .. (state or '')
  end
  return reply
until true
