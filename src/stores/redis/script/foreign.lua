-- Says that a key holds something else (`found`: a value, or the error of reading it), or what else
-- went wrong where it was read.
local function foreign(key, found, what)
  if type(found) == 'table' then
    if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' and string.sub(found.err, 1, 10) ~= '-WRONGTYPE' then
      return found
    end
    what = 'another type'
  end
  if #key > 64 then key = string.sub(key, 1, 64) .. '...' end
  key = string.gsub(key, '%c', '?')
  return {err = 'FOREIGNVALUE ' .. key .. ' holds ' .. (what or 'a value of another kind or version')}
end
