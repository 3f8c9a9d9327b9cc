-- floor((a * m + add) / d) and its remainder, exactly, although doubles hold whole numbers only up
-- to 2^53: digit by digit of 7 bits. For a < 2^35, m < 2^53, add and d < 2^45; a quotient beyond
-- 2^53 is far beyond it.
local function wide(a, m, add, d)
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
