-- Writes a counter. In: key, and value, keep_for and others as its function has returned them;
-- explicit_ms, how long keys are kept if the request has an explicit timestamp; call, redis.call;
-- and keys and values, as full.lua needs them.
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
    include 'full'
    put = call -- which ends the script if the server refuses it again
  end
until not refused
if others then
  if others ~= true then
    for _, command in ipairs(others) do call(unpack(command)) end
  end
  if ms then call('PEXPIRE', key, ms) end
end
