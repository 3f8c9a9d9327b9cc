-- Each of these returns what is left of a log: how many of the live entries stay, and the bytes of
-- those that follow. They change the summaries `live` of a hybrid.

-- With a take of `cost`. In a hybrid the first take of a slice makes a summary of the entries,
-- which are of an older slice. If `most` entries are left, the newest moves to `at`.
local function with_take(log, live, at, newest, cost, n, period, most)
  local keep = log.live
  if n > 0 and keep > 0 and slice_of(at, n, period) ~= slice_of(newest, n, period) then
    local oldest = age_of(log, (entry(log, log.expired)))
    live[#live + 1] = {log.units, oldest, age_of(log, log.newest), log.units}
    keep, log.before = 0, log.after
  elseif keep > 0 and newest == at or most and keep >= most then
    keep = keep - 1 -- charges of one instant share an entry
  end
  return keep, struct.pack(kLogEntry, at % kInstantModulus, (log.after + cost) % kSumModulus)
end

-- With `cost` units less, the newest first. What is `age` old has expired.
local function refunded(log, live, cost, age)
  if cost < log.units then
    local i = first_entry(log, log.expired, nil, log.before, log.units - cost)
    if i == log.count then damaged(log) end
    local instant = entry(log, i)
    if age_of(log, instant) >= age then damaged(log) end
    return i - log.expired, struct.pack(kLogEntry, instant, (log.after - cost) % kSumModulus)
  end
  if #live > 0 then give_back_summaries(live, cost - log.units) end
  return 0, ''
end

-- With `units` less in the entry of that instant. Returns nil if none of the newest 256 is.
local function given_back(log, instant, units)
  local i = log.count
  local found
  repeat
    i = i - 1
    if i < log.expired or i < log.count - 256 then return nil, '' end
    found = entry(log, i)
  until found == instant
  local before = log.before
  local _
  if i > log.expired then _, before = entry(log, i - 1) end
  _, found = entry(log, i)
  local held = (found - before) % kSumModulus
  if units > held then units = held end
  local tail = {}
  for j = units < held and i or i + 1, log.count - 1 do
    local at, sum = entry(log, j)
    tail[#tail + 1] = struct.pack(kLogEntry, at, (sum - units) % kSumModulus)
  end
  return i - log.expired, table.concat(tail)
end
