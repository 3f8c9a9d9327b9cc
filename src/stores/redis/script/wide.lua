-- Returns floor((a * m + add) / d) and the remainder. Doubles hold whole numbers only up to 2^53;
-- this is exact because it goes digit by digit of 7 bits. For a < 2^35, m < 2^53, add and d < 2^45.
-- A quotient beyond 2^53 is not exact, but is beyond 2^53.
local function wide(a, m, add, d)
  local small = a * m + add
  if small < kExact then
    local part = small % d
    return (small - part) / d, part
  end
  local rest = m % d
  local far = (m - rest) / d * a
  local quotient, remainder, weight = 0, 0, 268435456
  for _ = 1, 5 do
    local low = a % weight
    local sum = remainder * 128 + rest * ((a - low) / weight)
    if weight == 1 then sum = sum + add end
    remainder = sum % d
    quotient = quotient * 128 + (sum - remainder) / d
    a = low
    weight = weight / 128
  end
  return far + quotient, remainder
end
