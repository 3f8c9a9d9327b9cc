-- The entries of a log lie in a ring of `room` slots of 10 bytes, from the value's byte `base` on,
-- the oldest in slot `head`; the newest `back` of them lie behind the header. Each is the low 48
-- bits of its instant, and the low 32 of the units up to and with it: any sum is a difference, and
-- what is looked for is found by halving.

local function damaged(log)
  error(foreign(log.key, nil, 'a damaged log'))
end

-- Entry i; 0 is the oldest. Reads 16 from there on where it is not among those last read.
local function entry(log, i)
  local in_ring = log.count - log.back
  if i >= in_ring then return struct.unpack('<I6I4', log.value, 65 + (i - in_ring) * 10) end
  local slot = (log.head + i) % log.room
  local offset = slot - log.first
  if offset < 0 or offset >= log.held then
    local from = log.base + slot * 10
    local bytes = redis.call('GETRANGE', log.key, from, from + 159)
    if #bytes < 10 then damaged(log) end
    log.bytes, log.skip, log.first = bytes, 0, slot
    log.held = (#bytes - #bytes % 10) / 10
    offset = 0
  end
  return struct.unpack('<I6I4', log.bytes, log.skip + offset * 10 + 1)
end

-- How old entry i was at the last change.
local function age_of(log, instant)
  return (log.last - instant) % 281474976710656
end

-- The first entry from `low` on that is younger than `age`, or else whose units since `before`
-- reach `units`; `log.count` where there is none. By steps that double, then by halves.
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
      is_it = (sum - before) % 4294967296 >= units
    end
    if is_it then
      high, step = i, 0
    else
      low = i + 1
      step = step * 2
    end
  end
  return low
end

-- The bytes of `count` entries from entry i on.
local function entry_bytes(log, i, count)
  local parts, in_ring = {}, log.count - log.back
  while count > 0 do
    local run, from, bytes
    if i >= in_ring then
      run, from = count, 64 + (i - in_ring) * 10
      bytes = string.sub(log.value, from + 1, from + run * 10)
    else
      local slot = (log.head + i) % log.room
      run, from = math.min(log.room - slot, in_ring - i, count), log.base + slot * 10
      if log.is_whole then
        bytes = string.sub(log.value, from + 1, from + run * 10)
      else
        bytes = redis.call('GETRANGE', log.key, from, from + run * 10 - 1)
      end
    end
    if #bytes ~= run * 10 then damaged(log) end
    parts[#parts + 1] = bytes
    i, count = i + run, count - run
  end
  return table.concat(parts)
end
