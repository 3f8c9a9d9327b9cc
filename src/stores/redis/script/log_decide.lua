-- Returns the ticks until `units` of those that count have expired.
local function wait_for(log, age, live, units)
  for _, summary in ipairs(live) do
    if units <= summary[1] then return wait_for_summary(summary, age, units) end
    units = units - summary[1]
  end
  local i = first_entry(log, log.expired, nil, log.before, units)
  local wait = i < log.count and age - age_of(log, (entry(log, i))) or 0
  if wait <= 0 then damaged(log) end
  return wait
end

-- Returns the instant of the newest that counts; 0 if nothing does.
local function newest_of(log, live)
  if log.live > 0 then return log.last - age_of(log, log.newest) end
  if #live > 0 then return log.last - live[#live][3] end
  return 0
end

-- Returns what the reply says of the log.
local function reply_of(log, at, units, newest, wait, has_changed)
  return struct.pack(kLogReply, at, units, newest, log.forgotten, wait, has_changed)
end

local function window_log(key, arg, now, verb, state)
  local cost, capacity, period, slices = struct.unpack(kLogArgument, arg, 2)
  local own_kind = slices == 0 and kLogKind or kHybridKind
  local most = (capacity > kWholeLogUnits and slices == 0) and kLongHeadSize or kWholeLogSize
  state = state or redis.pcall('GETRANGE', key, 0, most - 1)
  local log = open_log(key, state, own_kind, now, most)
  if not log then return nil, state end
  local at = now < log.last and log.last or now
  local age = period - (at - log.last)
  expire(log, age)
  local live, sum = {}, 0
  if log.summaries > 0 then live, sum = live_summaries(log, age) end
  local units, newest = log.units + sum, newest_of(log, live)
  local keep, tail, stored = nil, '', 0
  if cost == 0 or verb == kReset then
    keep = nil -- nothing changes
  elseif verb == kTakeAtMostOfAll then
    return false, capacity - units
  elseif verb == kTake or verb == kPeek or verb == kTakeAtMost or verb == kReserve then
    if verb == kTakeAtMost then
      local left = capacity - units
      include 'at_most'
    end
    if units + cost > capacity then
      local wait = 0
      if cost <= capacity then wait = wait_for(log, age, live, units + cost - capacity) end
      return log.is_known and reply_of(log, at, units, newest, wait, 0) or false, false
    end
    keep, tail = with_take(log, live, at, newest, cost, slices, period)
  elseif verb == kCharge then
    stored = log.units
    for _, summary in ipairs(live) do stored = stored + summary[4] end
    local room = kMaxUnits - stored
    if capacity > 0 and room > 0 then
      if cost > room then cost = room end
      keep, tail = with_take(log, live, at, newest, cost, slices, period, 2 * capacity)
    end
  elseif verb == kGiveBack then
    local taken_at = struct.unpack(kInstant, arg, 2 + kLogArgumentSize)
    keep, tail = given_back(log, taken_at % kInstantModulus, cost)
  elseif capacity > 0 and units > 0 then
    keep, tail = refunded(log, live, cost, age)
  end
  local reply = log.is_known and reply_of(log, at, units, newest, stored, 0) or false
  if not keep then return reply, true end
  local final, value, keep_for, others, after =
    write_log(log, own_kind, at, now, period, capacity, live, keep, tail)
  if verb == kRefund then
    units = (after - log.before) % kSumModulus
    for _, summary in ipairs(live) do units = units + live_units(summary, age) end
    reply = reply_of(log, at, units, final or 0, 0, 1)
  end
  return reply, true, value, keep_for, others
end
