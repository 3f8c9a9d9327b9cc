part 'hybrid_summaries'
-- Older slices, for sliding_window_hybrid: see core/sliding_window_hybrid.h. The value has a
-- summary of each: its first instant, its last, and its units. Here a summary is a list of {units
-- that count, age of the first instant, age of the last, units}, ages as of the last change.

-- Returns the units of a summary that count, if what is `age` old does not.
local function live_units(summary, age)
  local first, last, units = summary[2], summary[3], summary[4]
  if first < age then return units end
  local product = units * (age - last)
  if product < kExact then
    return (product + -product % (first - last)) / (first - last)
  end
  local floor, rest = wide(units, age - last, 0, first - last)
  return rest > 0 and floor + 1 or floor
end

-- Returns the summaries that count, the oldest first, and the sum of their units that do.
local function live_summaries(log, age)
  local live, sum, stored = {}, 0, 0
  local value = log.value
  if kLogHeadSize + log.summaries * kSummarySize > #value then
    value = redis.call('GETRANGE', log.key, 0, log.base - 1)
    if #value ~= log.base then damaged(log) end
  end
  for i = 0, log.summaries - 1 do
    local first, last, units = struct.unpack(kSummary, value, kLogHeadSize + 1 + i * kSummarySize)
    local oldest, newest = age_of(log, first), age_of(log, last)
    stored = stored + units
    if oldest < newest or stored > 2 * kMaxUnits then damaged(log) end
    if newest < age then
      local summary = {0, oldest, newest, units}
      summary[1] = live_units(summary, age)
      live[#live + 1] = summary
      sum = sum + summary[1]
    end
  end
  return live, sum
end

-- Returns the ticks until `units` of those of a summary that count have expired.
local function wait_for_summary(summary, age, units)
  local spread, stay = summary[2] - summary[3], summary[1] - units
  local share = stay * spread
  if share < kExact then
    share = (share - share % summary[4]) / summary[4]
  else
    share = wide(stay, spread, 0, summary[4])
  end
  return age - summary[3] - share
end

local function summary_bytes(log, live)
  local parts = {}
  for i, s in ipairs(live) do
    parts[i] = struct.pack(kSummary, (log.last - s[2]) % kInstantModulus,
                           (log.last - s[3]) % kInstantModulus, s[4])
  end
  return table.concat(parts)
end

-- Takes units back, the newest first. A summary keeps its instants.
local function give_back_summaries(live, units)
  while units > 0 and #live > 0 do
    local newest = live[#live]
    local given = newest[4] < units and newest[4] or units
    newest[4] = newest[4] - given
    units = units - given
    if newest[4] == 0 then live[#live] = nil end
  end
end

part 'hybrid_short'
-- The short way of sliding_window_hybrid: a take that fits, of a value that is read and written as a
-- whole. Everything else goes the long way, any_log(), whose functions are made only when it is
-- called; a take takes about twice as long there.
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
