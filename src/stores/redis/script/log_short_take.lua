-- The short way of sliding_window_log: a take that needs only the value's first bytes, as most do,
-- or a charge or a take of at most the cost that does.
-- Everything else goes the long way, any_log(), whose functions are made only when it is called.
local function short_log(key, arg, now, verb)
  local own_kind, unpack = kLogKind, struct.unpack
  local cost, capacity, period = unpack(kLogArgument, arg, 2)
  local most = capacity > kWholeLogUnits and kLongHeadSize or kWholeLogSize
  local state =
    redis.pcall('GETRANGE', key, '0', most == kLongHeadSize and kLongHeadEnd or kWholeLogEnd)
  local takes = verb == kTake or verb == kCharge or verb == kTakeAtMost
  if not takes or cost == 0 or #state < kLogHeadSize + kLogEntrySize then
    return any_log(key, arg, now, verb, state)
  end
  include 'log_head'
  include 'check_header'
  if known_until <= now or changed > now or space > 0 or count == 0 or head > room then
    return any_log(key, arg, now, verb, state)
  end
  -- The oldest entries that were read: in `bytes`, from `at` to `stop`.
  local bytes, at, stop = state, kLogHeadSize + 1, kLogHeadSize + count * kLogEntrySize
  local in_ring = count
  if blocks == 0 then
    if head > 0 or count ~= room or stop > most - kLogEntrySize or #state ~= stop or
        summaries > 0 or front > 0 or cached > 0 or back > 0 then
      return any_log(key, arg, now, verb, state)
    end
    local first, sum = unpack(kLogEntry, state, at)
    local last, total = unpack(kLogEntry, state, stop - (kLogEntrySize - 1))
    if first ~= oldest or sum ~= first_sum or last ~= newest or total ~= after then
      return any_log(key, arg, now, verb, state)
    end
  else
    at, stop = kFrontBlock + 1 + front * kLogEntrySize, kFrontBlock + cached * kLogEntrySize
    in_ring = count - back
    if #state ~= most or stop > kLongHeadSize or back > kBlockEntries or in_ring < 1 or
        in_ring > room then
      return any_log(key, arg, now, verb, state)
    end
  end

  -- What was `age` old at the last change has expired.
  local age = period - (now - changed)
  local expired, is_live = 0, (changed - oldest) % kInstantModulus < age
  while not is_live and expired < in_ring do
    if at > stop then
      -- The next entries of the ring, as many as the front block holds.
      local slot = (head + expired) % room
      local run = in_ring - expired
      if run > kBlockEntries then run = kBlockEntries end
      if run > room - slot then run = room - slot end
      bytes = redis.call('GETRANGE', key, kLongHeadSize + slot * kLogEntrySize,
                         kLongHeadSize - 1 + (slot + run) * kLogEntrySize)
      at, stop = 1, run * kLogEntrySize
      if #bytes ~= stop then return any_log(key, arg, now, verb, state) end
    end
    oldest, first_sum = unpack(kLogEntry, bytes, at)
    is_live = (changed - oldest) % kInstantModulus < age
    if not is_live then
      before = first_sum
      at, expired = at + kLogEntrySize, expired + 1
    end
  end
  local units, last = (after - before) % kSumModulus, changed - (changed - newest) % kInstantModulus
  if is_live and (units == 0 or changed - last >= age) or
      not is_live and (blocks == 1 or units > 0) or last == now then
    return any_log(key, arg, now, verb, state)
  end
  if not is_live then last = 0 end
  if verb == kTakeAtMost then
    local left = capacity - units
    include 'at_most'
  end
  if units + cost > capacity then
    if verb == kCharge then return any_log(key, arg, now, verb, state) end
    local wait = 0
    if cost <= capacity then
      if units + cost - capacity > (first_sum - before) % kSumModulus then
        return any_log(key, arg, now, verb, state)
      end
      wait = age - (changed - oldest) % kInstantModulus
    end
    return struct.pack(kLogReply, now, units, last, forgotten, wait, 0), false
  end
  local stored = verb == kCharge and units or 0
  local reply = struct.pack(kLogReply, now, units, last, forgotten, stored, 0)
  include 'log_short_write'
end
