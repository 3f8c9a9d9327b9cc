-- Returns the new value of a log whose take was admitted. The names are those of short_log().
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
