-- Reads the blocks of the counters; their keys follow those of the counters. In: keys, states,
-- count and now. Out: blocks, the value of each, '' if it has none; and is_blocked, whether one of
-- them denies the request.
blocks = {}
for j = 1, #keys - count do
  local key, value = keys[count + j], states[count + j]
  if not reads_whole then value = redis.pcall('GET', key) end
  if value then
    local size = type(value) == 'string' and #value - kKeyBlockHeadSize or -1
    if size < 0 or size % kInstantSize ~= 0 then return foreign(key, value) end
    local kind, changed, ends, grown, forgotten = struct.unpack(kKeyBlockHead, value)
    if kind ~= kKeyBlockKind or changed >= kEndOfInstants or grown >= kEndOfSpans then
      return foreign(key, value)
    end
    local _, flags = struct.unpack('<I1I1', ARGV[count + 2], (j - 1) * kKeyBlockArgumentSize + 1)
    local at = changed > now and changed or now
    if forgotten > now and ends > at and flags % 2 == kDeniesIfBlocked then is_blocked = true end
  end
  blocks[j] = value or ''
end
