-- Reads the head of a log. In: state. Out: its numbers.
local kind, changed, forgotten, kept_until, space, summaries, room, head, count, before, after,
  oldest, newest, first_sum, blocks, front, cached, back = struct.unpack(kLogHead, state)
