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
