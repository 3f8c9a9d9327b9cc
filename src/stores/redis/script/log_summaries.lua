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
