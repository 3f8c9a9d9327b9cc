-- sliding_window_log and sliding_window_hybrid: see core/sliding_window_{log,hybrid}.h.

-- What the value's first bytes say of it, `most` of them, or a log of nothing; nothing where they
-- are not ours. A header of 64 bytes; a long log of no summaries then has two blocks of 160: the newest
-- `back` entries, which are not in the ring yet, and copies of the oldest ones of the ring, so that
-- a take seldom reads or writes the ring itself. Then `space` summaries, and the ring.
local function open_log(key, value, magic, now, most)
  local log = {key = key, most = most, last = now, value = value, forgotten = 0, expires = 0, room = 0, count = 0,
               summaries = 0, before = 0, after = 0, oldest = 0, newest = 0, first_sum = 0, back = 0,
               base = 64}
  if value == '' then return redis.call('EXISTS', key) == 0 and log or nil end
  if #value < 64 then return nil end
  local first, last, forgotten, expires, space, summaries, room, head, count, before, after, oldest,
    newest, first_sum, blocks, front, cached, back =
    struct.unpack('<I2I7I4I7I2I2I4I4I4I4I4I6I6I4I1I1I1I1', value)
  local base = 64 + blocks * 320 + space * 16
  local size = base + room * 10
  if first ~= magic or last >= 4503599627370496 or summaries > space or
      (space > 0 or blocks > 1) and magic == 0x13C1 or blocks > 0 and magic ~= 0x13C1 or
      front > cached or cached > 16 or back > 16 * blocks or back > count or
      count - back > room or head > room or count == 0 and before ~= after or
      last > forgotten * 1048576 and forgotten < 4294967294 or
      #value ~= (size < most and size or most) or
      size > most and redis.call('STRLEN', key) ~= size then
    return nil
  end
  log.is_known = forgotten * 1048576 > now or forgotten >= 4294967294
  if not log.is_known then return log end
  log.last, log.forgotten, log.expires, log.summaries = last, forgotten, expires, summaries
  log.room, log.head, log.count, log.before, log.after = room, head, count, before, after
  log.oldest, log.newest, log.first_sum, log.back = oldest, newest, first_sum, back
  log.base, log.space, log.blocks, log.is_whole = base, space, blocks, size <= most
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

-- Makes of the log: `keep` of its live entries and then those of `tail`, behind the summaries. The
-- instant of the newest that counts; the value, or what is to be written over its beginning; to how
-- long from now the key has to be kept; what else is to be written; and the units up to the newest.
local function store(log, magic, at, now, period, capacity, live, keep, tail)
  local count, start = keep + #tail / 10, log.expired
  local summaries = #live > 0 and summary_bytes(log, live) or ''
  local oldest, first_sum = 0, 0
  if keep > 0 then
    oldest, first_sum = entry(log, start)
  elseif #tail > 0 then
    oldest, first_sum = struct.unpack('<I6I4', tail)
  end
  local newest, after = log.newest, log.after
  if #tail > 0 then
    newest, after = struct.unpack('<I6I4', tail, #tail - 9)
  elseif keep == 0 then
    newest, after = 0, log.before
  elseif keep < log.live then
    newest, after = entry(log, start + keep - 1)
  end
  local final
  if count > 0 then
    final = at - (at - newest) % 281474976710656
    if at - final >= period then damaged(log) end
  elseif #live > 0 then
    final = log.last - live[#live][3]
  end
  local full = (final and final + period or at) + 1048575
  local forgotten = (full - full % 1048576) / 1048576
  if forgotten > 4294967294 then forgotten = 4294967294 end
  log.forgotten = forgotten
  local ends = forgotten * 1048576

  local space, room, head, blocks = #live, count, 0, 0
  local in_place = log.is_known and not log.is_whole and log.room > 0 and count <= log.room and
    log.room <= count * 4 + 100 and #live <= log.space
  local is_kept_long = in_place and log.expires >= ends
  local in_ring = log.count - log.back
  if in_place then
    space, room, blocks = log.space, log.room, log.blocks
    head = (log.head + math.min(start, in_ring)) % room
    -- Once in a while, for a while.
    if not is_kept_long then ends = ends + (ends - now - (ends - now) % 8) / 8 end
  elseif 64 + #summaries + count * 10 > log.most then
    room = count + (count - count % 5) / 5 + 8
    if room > capacity and count <= capacity then room = capacity end
    if magic == 0x13C1 then blocks = 1 end
  end
  local header = struct.pack('<I2I7I4I7I2I2I4I4I4I4I4I6I6I4I1I1I1I1', magic, at, forgotten,
                             is_kept_long and log.expires or ends, space, #live, room, head, count,
                             log.before, after, oldest, newest, first_sum, blocks, 0, 0, 0)
  if not in_place then
    local value = header .. string.rep('\0', blocks * 320) .. summaries ..
      entry_bytes(log, start, keep) .. tail .. string.rep('\0', (room - count) * 10)
    return final, value, ends - now, nil, after
  end
  -- What waited in the back goes to the ring, and `tail` behind it.
  local stay = math.max(math.min(keep, in_ring - start), 0)
  local bytes = entry_bytes(log, start + stay, keep - stay) .. tail
  local slot, written, others = (head + stay) % room, 0, {}
  while written < #bytes do
    local part = string.sub(bytes, written + 1, written + (room - slot) * 10)
    others[#others + 1] = {'SETRANGE', log.key, log.base + slot * 10, part}
    written, slot = written + #part, 0
  end
  return final, header .. summaries, not is_kept_long and ends - now or nil, others, after
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
  local most = (capacity > 102 and slices == 0) and 384 or 1088
  value = value or redis.pcall('GETRANGE', key, 0, most - 1)
  local log = open_log(key, value, magic, now, most)
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
  local keep_for, others, left
  final, value, keep_for, others, left =
    store(log, magic, at, now, period, capacity, live, keep, tail)
  if verb == 2 then
    units = (left - log.before) % 4294967296
    for _, summary in ipairs(live) do units = units + live_units(summary, age) end
    said = say(log, at, units, final or 0, 0, 1)
  end
  return said, true, value, keep_for, others
end
