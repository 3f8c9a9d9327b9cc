-- A key as errors show it.
local function shown(key)
  if #key > 64 then key = string.sub(key, 1, 64) .. '...' end
  return (string.gsub(key, '%c', '?'))
end

-- Says that a key holds something else, or what else went wrong where it was read.
local function foreign(key, found)
  local what = 'a value of another kind or version'
  if type(found) == 'table' then
    if string.sub(found.err, 1, 9) ~= 'WRONGTYPE' and string.sub(found.err, 1, 10) ~= '-WRONGTYPE' then
      return found
    end
    what = 'another type'
  end
  return {err = 'FOREIGNVALUE ' .. shown(key) .. ' holds ' .. what}
end
