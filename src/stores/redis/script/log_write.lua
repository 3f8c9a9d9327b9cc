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
