-- Returns the reply if a function cannot decide. `found`: the reply; or the value if the key holds
-- something else, or the error of reading it, which is returned if it says anything but WRONGTYPE.
-- `what`: what is wrong, if known.
local function foreign(key, found, what)
  if type(found) == 'table' then
    if found.ok or not string.find(found.err, '^%-?WRONGTYPE') then return found end
    what = 'another type'
  end
  if #key > 64 then key = string.sub(key, 1, 64) .. '...' end
  key = string.gsub(key, '%c', '?')
  what = what or 'a value of another kind or version'
  return {err = 'FOREIGNVALUE ' .. key .. ' holds ' .. what}
end
