-- sliding_window_log and sliding_window_hybrid: see core/sliding_window_{log,hybrid}.h.


-- What the value says of itself, or a log of nothing; nothing where it is not ours.
local function open_log(key, value, magic, now)
  local log = {key = key, last = now, value = value, forgotten = 0, expires = 0, room = 0, count = 0,
               summaries = 0, before = 0, after = 0, oldest = 0, newest = 0, base = 56}
  if value == '' then return redis.call('EXISTS', key) == 0 and log or nil end
  if #value < 56 then return nil end
  local first, last, forgotten, expires, space, summaries, room, head, count, before, after, oldest,
    newest = struct.unpack('<I2I7I4I7I2I2I4I4I4I4I4I6I6', value)
  local base = 56 + space * 16
  local size = base + room * 10
  if first ~= magic or last >= 4503599627370496 or summaries > space or
      space > 0 and magic == 0x13C1 or count > room or head > room or
      count == 0 and before ~= after or last > forgotten * 1048576 and forgotten < 4294967294 or
      #value ~= (size < 1056 and size or 1056) then
    return nil
  end
  log.is_known = forgotten * 1048576 > now or forgotten >= 4294967294
  if not log.is_known then return log end
  log.last, log.forgotten, log.expires, log.summaries = last, forgotten, expires, summaries
  log.room, log.head, log.count, log.before, log.after = room, head, count, before, after
  log.oldest, log.newest, log.base, log.is_whole = oldest, newest, base, size <= 1056
  log.bytes, log.skip, log.first, log.held = value, base, 0, log.is_whole and room or 0
  return log
end

-- Passes over the entries that have expired. log.units: of the log.live ones that are left.
local function expire(log, age)
  log.expired = 0
  if log.count > 0 and age_of(log, log.oldest) >= age then
    log.expired = first_entry(log, 1, age)
    local _
    _, log.before = entry(log, log.expired - 1)
  end
  log.units = (log.after - log.before) % 4294967296
  log.live = log.count - log.expired
  if log.live > 0 then
    if age_of(log, log.newest) >= age then damaged(log) end
  elseif log.units > 0 then
    damaged(log)
  end
end

-- Until what counts is `units` less, no more than there are.
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

-- The reply: what the log says of itself at that instant.
local function say(log, at, units, final, wait, has_changed)
  return struct.pack('<I7I5I7I4I7I1', at, units, final, log.forgotten, wait, has_changed)
end

-- The instant of the newest that counts; nothing where nothing does.
local function newest_of(log, live)
  if log.live > 0 then return log.last - age_of(log, log.newest) end
  if #live > 0 then return log.last - live[#live][3] end
  return nil
end

-- Makes of the log: `keep` of its live entries and then those of `tail`, behind the summaries. What
-- has to be written, and to how long from now the key has to be kept.
local function store(log, magic, at, now, period, capacity, live, keep, tail)
  local count, start = keep + #tail / 10, log.expired
  local summaries = #live > 0 and summary_bytes(log, live) or ''
  log.oldest = keep > 0 and (start > 0 and (entry(log, start)) or log.oldest) or 0
  if #tail > 0 then
    if keep == 0 then log.oldest = struct.unpack('<I6', tail) end
    log.newest, log.after = struct.unpack('<I6I4', tail, #tail - 9)
  elseif keep == 0 then
    log.newest, log.after = 0, log.before
  elseif keep < log.live then
    log.newest, log.after = entry(log, start + keep - 1)
  end
  local final
  if count > 0 then
    final = at - (at - log.newest) % 281474976710656
    if at - final >= period then damaged(log) end
  elseif #live > 0 then
    final = log.last - live[#live][3]
  end
  local full = (final and final + period or at) + 1048575
  log.forgotten = (full - full % 1048576) / 1048576
  if log.forgotten > 4294967294 then log.forgotten = 4294967294 end
  local ends = log.forgotten * 1048576
  local space, room, head = #live, count, 0
  local in_place = log.is_known and not log.is_whole and log.room > 0 and count <= log.room and
    log.room <= count * 4 + 100 and 56 + #summaries <= log.base
  local is_kept_long = in_place and log.expires >= ends
  if in_place then
    space, room, head = (log.base - 56) / 16, log.room, (log.head + start) % log.room
    -- Once in a while, for a while.
    if not is_kept_long then ends = ends + (ends - now - (ends - now) % 8) / 8 end
  elseif 56 + #summaries + count * 10 > 1056 then
    room = count + (count - count % 5) / 5 + 8
    if room > capacity and count <= capacity then room = capacity end
  end
  local header = struct.pack('<I2I7I4I7I2I2I4I4I4I4I4I6I6', magic, at, log.forgotten,
                             is_kept_long and log.expires or ends, space, #live, room, head, count,
                             log.before, log.after, log.oldest, log.newest) .. summaries
  if not in_place then
    local value = header .. entry_bytes(log, start, keep) .. tail ..
      string.rep('\0', (room - count) * 10)
    return final, value, ends - now
  end
  local commands = {{'SETRANGE', log.key, '0', header}}
  local slot, written = (head + keep) % room, 0
  while written < #tail do
    local run = (room - slot) * 10
    local bytes = string.sub(tail, written + 1, written + run)
    commands[#commands + 1] = {'SETRANGE', log.key, log.base + slot * 10, bytes}
    written, slot = written + #bytes, 0
  end
  return final, commands, not is_kept_long and ends - now or nil
end

-- The entries from the one of that instant on, with so many units less in it; where it is one of
-- the newest. Nothing where it is not there.
local function without(log, instant, units)
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
  local held = (found - before) % 4294967296
  if units > held then units = held end
  local tail = {}
  for j = units < held and i or i + 1, log.count - 1 do
    local at, sum = entry(log, j)
    tail[#tail + 1] = struct.pack('<I6I4', at, (sum - units) % 4294967296)
  end
  return i - log.expired, table.concat(tail)
end

local function window_log(key, arg, now, verb, value)
  local cost, capacity, period, slices = struct.unpack('<I6I4I6I2', arg, 2)
  local magic = slices == 0 and 0x13C1 or 0x15C1
  local log = open_log(key, value, magic, now)
  if not log then return nil, value end
  local at = now < log.last and log.last or now
  local age = period - (at - log.last)
  expire(log, age)
  local live, sum = {}, 0
  if log.summaries > 0 then live, sum = live_summaries(log, age) end
  local units = log.units + sum
  local final = newest_of(log, live) or 0
  local keep, tail = nil, ''
  if cost == 0 or verb == 3 then
    -- It is only looked at.
  elseif verb < 2 then
    if units + cost > capacity then
      local wait = 0
      if cost <= capacity then wait = wait_for(log, age, live, units + cost - capacity) end
      return log.is_known and say(log, at, units, final, wait, 0) or false, false
    end
    keep = log.live
    if slices > 0 and keep > 0 and slice_of(at, slices, period) ~= slice_of(final, slices, period) then
      local oldest = age_of(log, (entry(log, log.expired)))
      live[#live + 1] = {log.units, oldest, age_of(log, log.newest), log.units}
      keep, log.before = 0, log.after
    elseif keep > 0 and final == at then
      keep = keep - 1
    end
    tail = struct.pack('<I6I4', at % 281474976710656, (log.after + cost) % 4294967296)
  elseif verb == 4 then
    keep, tail = without(log, struct.unpack('<I7', arg, 20) % 281474976710656, cost)
  elseif capacity > 0 and units > 0 then
    local given = cost < log.units and cost or log.units
    if given < log.units then
      local i = first_entry(log, log.expired, nil, log.before, log.units - given)
      keep = i - log.expired
      tail = struct.pack('<I6I4', (entry(log, i)), (log.after - given) % 4294967296)
    else
      keep = 0
      if #live > 0 then give_back_summaries(live, cost - given) end
    end
  end
  local said = log.is_known and say(log, at, units, final, 0, 0) or false
  if not keep then return said, true end
  local keep_for
  final, value, keep_for = store(log, magic, at, now, period, capacity, live, keep, tail)
  if verb == 2 then
    units = (log.after - log.before) % 4294967296
    for _, summary in ipairs(live) do units = units + live_units(summary, age) end
    said = say(log, at, units, final or 0, 0, 1)
  end
  return said, true, value, keep_for
end
