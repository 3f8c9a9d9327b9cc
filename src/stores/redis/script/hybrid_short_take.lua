-- The short way of sliding_window_hybrid: a take that fits, of a value that is read and written as a
-- whole. Everything else goes the long way, any_log(), whose functions are made only when it is
-- called.
local function short_hybrid(key, arg, now, verb)
  local own_kind, unpack = kHybridKind, struct.unpack
  local cost, capacity, period, n = unpack(kLogArgument, arg, 2)
  local state = redis.pcall('GETRANGE', key, '0', kWholeLogEnd)
  local takes = verb == kTake or verb == kTakeAtMost or verb == kReserve
  if not takes or cost == 0 or #state < kLogHeadSize + kLogEntrySize then
    return any_log(key, arg, now, verb, state)
  end
  include 'log_head'
  include 'check_header'
  local first_entry = kLogHeadSize + summaries * kSummarySize
  local into = now % period * n
  -- What was that old at the last change has expired.
  local expired_age = period - (now - changed)
  if known_until <= now or changed > now or space ~= summaries or count == 0 or count ~= room or
      head > 0 or blocks > 0 or back > 0 or front > cached or cached > kBlockEntries or
      #state ~= first_entry + count * kLogEntrySize or
      #state > kWholeLogSize - kSummarySize - kLogEntrySize or into >= kExact or
      (changed - oldest) % kInstantModulus >= expired_age then
    return any_log(key, arg, now, verb, state)
  end
  local its_oldest, its_sum = unpack(kLogEntry, state, first_entry + 1)
  local its_newest, total = unpack(kLogEntry, state, #state - (kLogEntrySize - 1))
  if its_oldest ~= oldest or its_sum ~= first_sum or its_newest ~= newest or total ~= after then
    return any_log(key, arg, now, verb, state)
  end

  -- The units that count. The summaries before byte `at` have expired.
  local units, at = (after - before) % kSumModulus, kLogHeadSize + 1
  local sum, stored = units, 0
  for i = at, first_entry, kSummarySize do
    local first, last, all = unpack(kSummary, state, i)
    first, last = (changed - first) % kInstantModulus, (changed - last) % kInstantModulus
    if first < last then return any_log(key, arg, now, verb, state) end
    stored = stored + all
    if first < expired_age then
      sum = sum + all
    else
      if last >= expired_age then
        if i > at then return any_log(key, arg, now, verb, state) end
        at = i + kSummarySize
      else
        local product = all * (expired_age - last)
        if product >= kExact then return any_log(key, arg, now, verb, state) end
        sum = sum + (product + -product % (first - last)) / (first - last)
      end
    end
  end
  local age = now - changed + (changed - newest) % kInstantModulus
  if sum + cost > capacity or age >= period or units == 0 or stored > 2 * kMaxUnits then
    return any_log(key, arg, now, verb, state)
  end

  local reply = struct.pack(kLogReply, now, sum, now - age, forgotten, 0, 0)
  local low = now % kInstantModulus
  local held
  if age * n > into % period then
    -- The entries are of an older slice, so they become a summary.
    held = string.sub(state, at, first_entry) .. struct.pack(kSummary, oldest, newest, units)
    count, before = 0, after
  else
    if age == 0 then count = count - 1 end -- charges of one instant share an entry
    held = string.sub(state, at, first_entry + count * kLogEntrySize)
  end
  summaries = (#held - count * kLogEntrySize) / kSummarySize
  after = (after + cost) % kSumModulus
  if count == 0 then oldest, first_sum = low, after end
  count = count + 1
  local full = now + period
  include 'seal'
  return reply, true,
         struct.pack(kLogBeforeAnEntry, own_kind, now, forgotten, ends, summaries, summaries, count,
                     0, count, before, after, oldest, low, first_sum, 0, 0, 0, 0, held, low, after),
         ends - now
end
