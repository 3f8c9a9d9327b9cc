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
  -- Returns the new value of a log whose take was admitted. The names are those of short_log().
  local full = now + period
  include 'seal'
  local low = now % kInstantModulus
  after = (after + cost) % kSumModulus
  if not is_live then oldest, first_sum = low, after end
  count = count - expired + 1
  local keep_for, others, held, cache = ends - now, nil, nil, ''
  if blocks == 0 then
    held = string.sub(state, at, stop)
    kept_until, room, head, front, cached, back = ends, count, 0, 0, 0, 0
  else
    head, in_ring = (head + expired) % room, in_ring - expired
    others, held = true, string.sub(state, kLogHeadSize + 1, kLogHeadSize + back * kLogEntrySize)
    if back == kBlockEntries then
      -- The back block is full: its entries go to the ring.
      local slot = (head + in_ring) % room
      if in_ring + kBlockEntries > room or slot + kBlockEntries > room or
          redis.call('STRLEN', key) ~= kLongHeadSize + room * kLogEntrySize then
        return any_log(key, arg, now, verb, state)
      end
      others = {{'SETRANGE', key, kLongHeadSize + slot * kLogEntrySize, held}}
      held, back = '', 0
    end
    back = back + 1
    if bytes == state then
      front = (at - (kFrontBlock + 1)) / kLogEntrySize
    else
      front, cached = (at - 1) / kLogEntrySize, stop / kLogEntrySize
      cache = string.rep('\0', (kBlockEntries - back) * kLogEntrySize) .. bytes
    end
    if kept_until >= ends then
      keep_for = nil
    else
      -- An eighth longer, so that the next takes need not set it.
      keep_for = keep_for + (keep_for - keep_for % 8) / 8
      kept_until = now + keep_for
    end
  end
  return reply, true,
         struct.pack(kLogBeforeAnEntry, own_kind, now, forgotten, kept_until, 0, 0, room, head, count,
                     before, after, oldest, low, first_sum, blocks, front, cached, back, held, low,
                     after) .. cache,
         keep_for, others
end
