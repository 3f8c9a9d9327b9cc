-- Changes the cost of a take of at most that. In: left, the units that would pass. Out: cost,
-- 1 if there are none, which is denied then.
if left < cost then cost = left < 1 and 1 or left end
