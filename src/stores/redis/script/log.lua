part 'log_head'
-- Reads the head of a log. In: state. Out: its numbers.
local kind, changed, forgotten, kept_until, space, summaries, room, head, count, before, after,
  oldest, newest, first_sum, blocks, front, cached, back = struct.unpack(kLogHead, state)

part 'log_entries'
-- A script creates its functions at each call. The many functions for logs are inside this one, so
-- they are created only when it is called.
local function any_log(key, arg, now, verb, state)
-- The entries of a log, oldest first. They are in a ring of `room` slots from byte `base` of the
-- value on, the oldest in slot `head`; the newest `back` of them are after the header instead. An
-- entry is an instant and a running sum, so the units between two entries are a difference, and
-- first_entry() finds an entry in few steps.

local function damaged(log)
  error(foreign(log.key, nil, 'a damaged log').err, 0) -- a text: Redis 6 raises no table
end

-- Returns the instant and the sum of entry i; 0 is the oldest. If i was not read yet, reads 16.
local function entry(log, i)
  local in_ring = log.count - log.back
  if i >= in_ring then
    return struct.unpack(kLogEntry, log.value, kLogHeadSize + 1 + (i - in_ring) * kLogEntrySize)
  end
  local slot = (log.head + i) % log.room
  local offset = slot - log.first
  if offset < 0 or offset >= log.held then
    local from, size = log.base + slot * kLogEntrySize, kBlockEntries * kLogEntrySize
    local bytes = redis.call('GETRANGE', log.key, from, from + size - 1)
    if #bytes < kLogEntrySize then damaged(log) end
    log.bytes, log.skip, log.first = bytes, 0, slot
    log.held = (#bytes - #bytes % kLogEntrySize) / kLogEntrySize
    offset = 0
  end
  return struct.unpack(kLogEntry, log.bytes, log.skip + offset * kLogEntrySize + 1)
end

-- Returns how old an instant was at the last change.
local function age_of(log, instant)
  return (log.last - instant) % kInstantModulus
end

-- Returns the first entry from `low` on that is younger than `age`; without an age the first that
-- brings the units since the sum `before` to `units`; log.count if there is none. Searches in steps
-- that double, then by halves; for an age in a log of which all was read, one by one, as the short
-- way does. The module searches in the same order, so that both decide a damaged log alike.
local function first_entry(log, low, age, before, units)
  local high, step = log.count, 1
  while low < high do
    local i = low + step - 1
    if i >= high or step == 0 then i = (low + high - (low + high) % 2) / 2 end
    local instant, sum = entry(log, i)
    local is_it
    if age then
      is_it = age_of(log, instant) < age
    else
      is_it = (sum - before) % kSumModulus >= units
    end
    if is_it then
      high, step = i, 0
    else
      low = i + 1
      if not age or not log.is_whole then step = step * 2 end
    end
  end
  return low
end

-- Returns the bytes of `count` entries from entry i on.
local function entry_bytes(log, i, count)
  local parts, in_ring = {}, log.count - log.back
  while count > 0 do
    local run, from = count, kLogHeadSize + (i - in_ring) * kLogEntrySize
    if i < in_ring then
      local slot = (log.head + i) % log.room
      run, from = math.min(log.room - slot, in_ring - i, count), log.base + slot * kLogEntrySize
    end
    local size = run * kLogEntrySize
    local bytes
    if i >= in_ring or log.is_whole then
      bytes = string.sub(log.value, from + 1, from + size)
    else
      bytes = redis.call('GETRANGE', log.key, from, from + size - 1)
    end
    if #bytes ~= size then damaged(log) end
    parts[#parts + 1] = bytes
    i, count = i + run, count - run
  end
  return table.concat(parts)
end

part 'log'
-- A log, for sliding_window_log and sliding_window_hybrid: see core/sliding_window_{log,hybrid}.h.
-- It is a table of the numbers of its head, and of
--   key, value, most  the key, and what was read of the value, at most its first `most` bytes
--   base, is_whole    where the ring begins, and whether all of the value was read
--   bytes, skip, first, held
--                     entries that were read: `held` from slot `first` on, after `skip` bytes
--   is_known          false if nothing counts, because the log is absent or forgotten
--   expired, live     the number of entries that have expired, and that have not
--   units             of the live entries

local function unknown_log(key, value, now, most)
  return {key = key, value = value, most = most, base = kLogHeadSize, last = now, forgotten = 0,
          summaries = 0, count = 0, before = 0, after = 0, oldest = 0, newest = 0, back = 0}
end

-- Returns the log whose value begins with `state`; nil if the value is something else.
local function open_log(key, state, own_kind, now, most)
  if state == '' then
    return redis.call('EXISTS', key) == 0 and unknown_log(key, state, now, most) or nil
  end
  if #state < kLogHeadSize then return nil end
  include 'log_head'
  include 'check_header'
  local base = kLogHeadSize + blocks * kBlocksSize + space * kSummarySize
  local size = base + room * kLogEntrySize
  local is_hybrid = own_kind == kHybridKind
  if summaries > space or space > 0 and not is_hybrid or blocks > (is_hybrid and 0 or 1) or
      front > cached or cached > kBlockEntries or back > kBlockEntries * blocks or back > count or
      count - back > room or head > room or count == 0 and before ~= after or
      #state ~= (size < most and size or most) or
      size >= most and redis.call('STRLEN', key) ~= size then
    return nil
  end
  if known_until <= now then return unknown_log(key, state, now, most) end
  local is_whole = size <= most
  return {key = key, value = state, most = most, base = base, is_whole = is_whole, is_known = true,
          last = changed, forgotten = forgotten, kept_until = kept_until, space = space,
          summaries = summaries, room = room, head = head, count = count, before = before,
          after = after, oldest = oldest, newest = newest, first_sum = first_sum, blocks = blocks,
          back = back,
          bytes = state, skip = base, first = 0, held = is_whole and room or 0}
end

-- Refuses a log of which all was read if its head contradicts the first or the last entry.
local function check_ends(log)
  local oldest, first_sum = entry(log, 0)
  local newest, after = entry(log, log.count - 1)
  if oldest ~= log.oldest or first_sum ~= log.first_sum or newest ~= log.newest or
      after ~= log.after then
    damaged(log)
  end
end

-- Passes over the entries that have expired.
local function expire(log, age)
  log.expired = 0
  if log.is_whole and log.count > 0 then check_ends(log) end
  if log.count > 0 and age_of(log, log.oldest) >= age then
    log.expired = first_entry(log, 1, age)
    local _
    _, log.before = entry(log, log.expired - 1)
  end
  log.units = (log.after - log.before) % kSumModulus
  log.live = log.count - log.expired
  if log.live > 0 then
    if log.units == 0 or age_of(log, log.newest) >= age then damaged(log) end
  elseif log.units > 0 then
    damaged(log)
  end
end

-- Returns the numbers of the oldest and of the newest entry, if of the live entries `keep` stay and
-- those of `tail` follow.
local function ends_of(log, keep, tail)
  local oldest, first_sum, newest, after = 0, 0, log.newest, log.after
  if keep > 0 then
    oldest, first_sum = entry(log, log.expired)
  elseif #tail > 0 then
    oldest, first_sum = struct.unpack(kLogEntry, tail)
  end
  if #tail > 0 then
    newest, after = struct.unpack(kLogEntry, tail, #tail - (kLogEntrySize - 1))
  elseif keep == 0 then
    newest, after = 0, log.before
  elseif keep < log.live then
    newest, after = entry(log, log.expired + keep - 1)
  end
  return oldest, first_sum, newest, after
end

-- Returns the commands that write the back's entries, and those of `tail`, into the ring.
local function ring_commands(log, head, keep, tail)
  local stay = math.max(math.min(keep, log.count - log.back - log.expired), 0)
  local bytes = entry_bytes(log, log.expired + stay, keep - stay) .. tail
  local slot, written, commands = (head + stay) % log.room, 0, {}
  while written < #bytes do
    local part = string.sub(bytes, written + 1, written + (log.room - slot) * kLogEntrySize)
    commands[#commands + 1] = {'SETRANGE', log.key, log.base + slot * kLogEntrySize, part}
    written, slot = written + #part, 0
  end
  return commands
end

-- Makes the new value: the summaries `live`, `keep` live entries, and those of `tail`. Returns the
-- instant of the newest that counts; the value or its beginning; for how long the key is to be
-- kept; the other commands that write; and the running sum with the newest entry.
local function write_log(log, own_kind, at, now, period, capacity, live, keep, tail)
  local count = keep + #tail / kLogEntrySize
  local summaries = #live > 0 and summary_bytes(log, live) or ''
  local oldest, first_sum, newest, after = ends_of(log, keep, tail)
  local final
  if count > 0 then
    final = at - (at - newest) % kInstantModulus
    if at - final >= period then damaged(log) end
  elseif #live > 0 then
    final = log.last - live[#live][3]
  end
  local full = final and final + period or at
  include 'seal'
  log.forgotten = forgotten
  local expires = ends

  local space, room, head, blocks = #live, count, 0, 0
  local in_place = log.is_known and not log.is_whole and log.room > 0 and count <= log.room and
    log.room <= count * 4 + 100 and #live <= log.space
  local is_kept_long = in_place and log.kept_until >= ends
  if in_place then
    space, room, blocks = log.space, log.room, log.blocks
    head = (log.head + math.min(log.expired, log.count - log.back)) % room
    -- An eighth longer, so that the next requests need not set it.
    expires = is_kept_long and log.kept_until or ends + (ends - now - (ends - now) % 8) / 8
  elseif kLogHeadSize + #summaries + count * kLogEntrySize > log.most then
    room = count + (count - count % 5) / 5 + 8
    if room > capacity and count <= capacity then room = capacity end
    if own_kind == kLogKind then blocks = 1 end
  end
  local value = struct.pack(kLogHead, own_kind, at, forgotten, expires, space, #live, room, head,
                            count, log.before, after, oldest, newest, first_sum, blocks, 0, 0, 0)
  if in_place then
    return final, value .. summaries, not is_kept_long and expires - now or nil,
           ring_commands(log, head, keep, tail), after
  end
  value = value .. string.rep('\0', blocks * kBlocksSize) .. summaries ..
    entry_bytes(log, log.expired, keep) .. tail .. string.rep('\0', (room - count) * kLogEntrySize)
  return final, value, expires - now, nil, after
end

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
  elseif verb == kTake or verb == kPeek or verb >= kReserve then
    local left = capacity - units
    include 'at_most'
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
return window_log(key, arg, now, verb, state)
end

part 'log_short'
-- The short way of sliding_window_log: a take that needs only the value's first bytes, as most do,
-- or a charge or a take of at most the cost that does.
-- Everything else goes the long way, any_log(), whose functions are made only when it is called. A
-- take takes 1.6 to 2.1 times as long there.
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
  local left = capacity - units
  include 'at_most'
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
  -- The new value.
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
