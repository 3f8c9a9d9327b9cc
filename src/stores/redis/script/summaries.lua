-- What is left of older slices, for sliding_window_hybrid: see core/sliding_window_hybrid.h. Each is
-- 16 bytes: the low 48 bits of its first instant and of its last, and its units.

-- Of a summary, {_, age of its first instant, of its last, units}, the units that count.
local function live_units(summary, age)
  local first, last, units = summary[2], summary[3], summary[4]
  if first < age then return units end
  local product = units * (age - last)
  if product < 4503599627370496 then
    return (product + -product % (first - last)) / (first - last)
  end
  local floor, rest = wide(units, age - last, 0, first - last)
  return rest > 0 and floor + 1 or floor
end

-- Those of which anything counts where what is `age` old at the last change does not: a list, oldest
-- first, of {units that count, age of the first instant, of the last, units}; and their sum.
local function live_summaries(log, age)
  local live, sum = {}, 0
  local value = log.value
  if log.summaries * 16 + 64 > #value then
    value = redis.call('GETRANGE', log.key, 0, log.base - 1)
    if #value ~= log.base then damaged(log) end
  end
  for at = 65, 49 + log.summaries * 16, 16 do
    local first, last, units = struct.unpack('<I6I6I4', value, at)
    local oldest, newest = age_of(log, first), age_of(log, last)
    if newest < age then
      local summary = {0, oldest, newest, units}
      summary[1] = live_units(summary, age)
      live[#live + 1] = summary
      sum = sum + summary[1]
    end
  end
  return live, sum
end

-- Until `units` of a summary have left, no more than count of it.
local function wait_for_summary(summary, age, units)
  local spread, stay = summary[2] - summary[3], summary[1] - units
  local share = stay * spread
  if share < 4503599627370496 then
    share = (share - share % summary[4]) / summary[4]
  else
    share = wide(stay, spread, 0, summary[4])
  end
  return age - summary[3] - share
end

local function summary_bytes(log, live)
  local parts = {}
  for i, s in ipairs(live) do
    parts[i] = struct.pack('<I6I6I4', (log.last - s[2]) % 281474976710656,
                           (log.last - s[3]) % 281474976710656, s[4])
  end
  return table.concat(parts)
end

-- Takes units back, the newest first; a summary keeps its instants.
local function give_back_summaries(live, units)
  while units > 0 and #live > 0 do
    local newest = live[#live]
    local given = newest[4] < units and newest[4] or units
    newest[4] = newest[4] - given
    units = units - given
    if newest[4] == 0 then live[#live] = nil end
  end
end
