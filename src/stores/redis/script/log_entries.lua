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
