-- Writes a counter. In: key, and value, keep_for and others as its function has returned them;
-- explicit_ms, how long keys are kept if the request has an explicit timestamp; call, redis.call;
-- keys; and values, of which each is to be written, nil for all.
local ms = keep_for
if ms then
  -- Rounded up, and 1 more: Redis counts from the last whole millisecond of its clock.
  ms = explicit_ms or (ms < 0 and 1 or (ms + -ms % 1000) / 1000 + 1)
end
local put = redis.pcall
repeat
  local said
  if others then
    said = put('SETRANGE', key, '0', value)
  elseif value then
    said = put('SET', key, value, 'PX', ms)
  end
  local refused = type(said) == 'table' and said.err
  if refused then
    -- The server has refused a call's first write, with the error `refused`. If its memory is full, it
    -- executes all writes of a call whose first one needs no memory. So this call writes counters that
    -- exist, and creates none.
    if string.find(refused, 'OOM ', 1, true) then
      local new = ''
      for j, one in ipairs(keys) do
        if (not values or values[j]) and call('EXISTS', one) == 0 then new = new .. ' ' .. j end
      end
      if new ~= '' then return {err = 'STOREFULL' .. new .. ': no memory for a new counter'} end
      local left = call('PTTL', key)
      if left > 0 then call('PEXPIRE', key, left) end
    end
    put = call -- which ends the script if the server refuses it again
  end
until not refused
if others then
  if others ~= true then
    for _, command in ipairs(others) do call(unpack(command)) end
  end
  if ms then call('PEXPIRE', key, ms) end
end
