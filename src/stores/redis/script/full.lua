-- The server has refused a call's first write, with the error `refused`. If its memory is full, it
-- executes all writes of a call whose first one needs no memory. So this call writes counters that
-- exist, and creates none. In: keys; values, of which each is to be written, nil for all; key.
if string.find(refused, 'OOM ', 1, true) then
  local new = ''
  for j, one in ipairs(keys) do
    if (not values or values[j]) and call('EXISTS', one) == 0 then new = new .. ' ' .. j end
  end
  if new ~= '' then return {err = 'STOREFULL' .. new .. ': no memory for a new counter'} end
  local left = call('PTTL', key)
  if left > 0 then call('PEXPIRE', key, left) end
end
