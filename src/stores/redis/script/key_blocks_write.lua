-- Counts the denials of a request for the blocks of their counters, or blocks and unblocks by hand:
-- see core/block.h. In: keys, count, blocks, is_blocked, denied and now, and explicit_ms as for
-- write.lua. Changes blocks[j] into its part of the reply.
for j = 1, #blocks do
  local counter, flags, after, within, length, growth, at_most =
    struct.unpack(kKeyBlockArgument, ARGV[count + 2], (j - 1) * kKeyBlockArgumentSize + 1)
  local key, value, is_written = keys[count + j], blocks[j], '\1'
  if flags == kUnblocksByHand then
    call('DEL', key)
  elseif flags == kBlocksByHand or
      denied[counter] and not is_blocked and flags >= kCountsDenials then
    local at, ends, grown, denials, forgotten = now, 0, 0, '', nil
    if value ~= '' then
      local _, changed, held_end, held_grown, known_until = struct.unpack(kKeyBlockHead, value)
      if known_until > now then
        if changed > now then at = changed end
        ends, denials = held_end, string.sub(value, kKeyBlockHeadSize + 1)
        if at - ends < at_most then grown = held_grown end
      end
    end
    local first = 1
    while first <= #denials and at - struct.unpack(kInstant, denials, first) >= within do
      first = first + kInstantSize
    end
    denials = string.sub(denials, first)
    if flags == kBlocksByHand then
      ends, denials = at + length, ''
    elseif #denials / kInstantSize + 1 < after then
      denials = denials .. struct.pack(kInstant, at)
      forgotten = at + within
    else
      if grown == 0 then
        grown = length
      else
        local part = grown % 100
        local longer = part * growth
        grown = (grown - part) / 100 * growth + (longer + -longer % 100) / 100
        if grown < length then grown = length end
        if grown > at_most then grown = at_most end
      end
      ends, denials = at + grown, ''
    end
    local quiet = grown > 0 and ends + at_most or ends
    if not forgotten or quiet > forgotten then forgotten = quiet end
    local left = forgotten - now
    local ms = explicit_ms or (left + -left % 1000) / 1000 + 1
    -- A value of another type is not overwritten: MGET returns nothing for it.
    local said = redis.pcall('SET', key,
      struct.pack(kKeyBlockHead, kKeyBlockKind, at, ends, grown, forgotten) .. denials,
      'PX', ms, value == '' and 'NX' or 'XX')
    if not said then return foreign(key, redis.pcall('GET', key)) end
    if said.err then
      if flags == kBlocksByHand then return said end
      is_written = '\0' -- the server has no memory for it
    end
  end
  blocks[j] = is_written .. value
end
